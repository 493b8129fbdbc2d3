package iwarp

import "unsafe"

// memoryAt is the memory that an SGE of an inline request names. The address is
// the local program's own and is not checked, as in ibv_post_send; it must be
// outside of the Go heap, where memory does not move.
func memoryAt(addr uint64, n uint32) []byte {
	if n == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&addr))), n)
}
