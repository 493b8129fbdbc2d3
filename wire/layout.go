package wire

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// A SizeError says that a message had another length than its type has.
type SizeError struct {
	Message string // what was parsed, such as "completion queue entry"
	Got     int    // length in bytes of what came
	Want    int    // length in bytes that the message has, at least
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("%s has %d bytes, want %d", e.Message, e.Got, e.Want)
}

// wantSize checks the length of a message of fixed size.
func wantSize(message string, b []byte, want int) error {
	if len(b) != want {
		return &SizeError{Message: message, Got: len(b), Want: want}
	}
	return nil
}

// wantAtLeast checks the length of a message that something else may follow.
func wantAtLeast(message string, b []byte, least int) error {
	if len(b) < least {
		return &SizeError{Message: message, Got: len(b), Want: least}
	}
	return nil
}

// extend adds n zero bytes to b and returns the longer slice and the part that was added.
func extend(b []byte, n int) (whole, added []byte) {
	whole = slices.Grow(b, n)[:len(b)+n]
	added = whole[len(b):]
	clear(added)
	return whole, added
}

// layout walks the fields of a message at their offsets and either reads or writes them, so that one list of offsets serves both
// directions and they can't disagree.
type layout struct {
	b      []byte
	encode bool
}

// fixed is a message whose fields are at fixed offsets.
type fixed interface{ layout(layout) }

// parseFixed reads a message of exactly size bytes.
func parseFixed(m fixed, name string, b []byte, size int) error {
	if err := wantSize(name, b, size); err != nil {
		return err
	}
	m.layout(layout{b: b})
	return nil
}

// parsePadded reads a message from the first size bytes of b.
func parsePadded(m fixed, name string, b []byte, size int) error {
	if err := wantAtLeast(name, b, size); err != nil {
		return err
	}
	m.layout(layout{b: b[:size]})
	return nil
}

// appendFixed adds the size bytes of a message to b.
func appendFixed(m fixed, b []byte, size int) []byte {
	b, added := extend(b, size)
	m.layout(layout{b: added, encode: true})
	return b
}

func u8[T ~uint8](l layout, off int, p *T) {
	if l.encode {
		l.b[off] = uint8(*p)
	} else {
		*p = T(l.b[off])
	}
}

func u16[T ~uint16](l layout, off int, p *T) {
	if l.encode {
		binary.LittleEndian.PutUint16(l.b[off:], uint16(*p))
	} else {
		*p = T(binary.LittleEndian.Uint16(l.b[off:]))
	}
}

func u32[T ~uint32](l layout, off int, p *T) {
	if l.encode {
		binary.LittleEndian.PutUint32(l.b[off:], uint32(*p))
	} else {
		*p = T(binary.LittleEndian.Uint32(l.b[off:]))
	}
}

func u64[T ~uint64](l layout, off int, p *T) {
	if l.encode {
		binary.LittleEndian.PutUint64(l.b[off:], uint64(*p))
	} else {
		*p = T(binary.LittleEndian.Uint64(l.b[off:]))
	}
}

func u128(l layout, off int, p *Uint128) {
	u64(l, off, &p.Lo)
	u64(l, off+8, &p.Hi)
}

func octets(l layout, off int, p []byte) {
	if l.encode {
		copy(l.b[off:], p)
	} else {
		copy(p, l.b[off:])
	}
}
