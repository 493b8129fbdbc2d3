package bench

import (
	"encoding/binary"
	"fmt"
)

// next is SplitMix64: the next state, and the number made of it.
func next(state uint64) (uint64, uint64) {
	state += 0x9E3779B97F4A7C15
	z := state
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return state, z ^ z>>31
}

// pattern identifies the content of a block: where it is, and how often it has
// been written.
type pattern struct {
	seed, offset uint64
	sequence     uint32
}

func (p pattern) start() uint64 {
	_, a := next(p.seed ^ p.offset)
	_, b := next(a ^ uint64(p.sequence))
	return b
}

// fill writes the content; the length is a multiple of 8.
func (p pattern) fill(b []byte) {
	state := p.start()
	for ; len(b) >= 8; b = b[8:] {
		var v uint64
		state, v = next(state)
		binary.LittleEndian.PutUint64(b, v)
	}
}

// check compares b with the content.
func (p pattern) check(b []byte) error {
	state := p.start()
	for i := 0; i+8 <= len(b); i += 8 {
		var v uint64
		state, v = next(state)
		if got := binary.LittleEndian.Uint64(b[i:]); got != v {
			return &VerifyError{Offset: p.offset + uint64(i), Sequence: p.sequence, Got: got, Want: v}
		}
	}
	return nil
}

// VerifyError is data that is not what was written.
type VerifyError struct {
	// Offset is where the first difference is, in bytes.
	Offset uint64
	// Sequence is how often the block had been written.
	Sequence  uint32
	Got, Want uint64
}

func (e *VerifyError) Error() string {
	return fmt.Sprintf("verify: at offset %d, written %d times: read 0x%016x, wrote 0x%016x", e.Offset, e.Sequence, e.Got, e.Want)
}
