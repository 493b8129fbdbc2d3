package ibv

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"rbd/verbs"
)

// hugePage is the size of a transparent huge page where pages have 4 KiB.
const hugePage = 2 << 20

// wantHugePages asks for huge pages under the memory, which is about to be pinned.
// Where there are none it has small ones.
func wantHugePages(mem []byte) {
	start := verbs.AddrOf(mem)
	skip := int(-start % hugePage)
	if n := (len(mem) - skip) / hugePage * hugePage; n > 0 {
		_ = unix.Madvise(mem[skip:skip+n], unix.MADV_HUGEPAGE)
	}
}

// inlineBytes are the n bytes at an address that a request with SendInline names:
// memory of the caller, which the request's owner vouches for.
func inlineBytes(addr uint64, n int) []byte {
	p := uintptr(addr)
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&p))), n)
}
