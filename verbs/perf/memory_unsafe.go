package perf

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// watchedByte is a byte of registered memory that the peer changes by RDMA WRITE,
// and that a goroutine here looks at.
type watchedByte struct {
	word *uint32 // the aligned word that has it
	at   int     // where in the word
}

// watch looks at mem[i]. mem is whole pages.
func watch(mem []byte, i int) watchedByte {
	return watchedByte{(*uint32)(unsafe.Pointer(&mem[i&^3])), i & 3}
}

// load reads the memory anew each time.
func (w watchedByte) load() byte {
	var b [4]byte
	binary.NativeEndian.PutUint32(b[:], atomic.LoadUint32(w.word))
	return b[w.at]
}
