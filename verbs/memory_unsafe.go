package verbs

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// AllocMemory returns n bytes, rounded up to whole pages, of zeroed anonymous
// memory outside the Go heap: not scanned, not moved, and not counted by the
// garbage collector. Pages are backed when first touched. Free it with
// [FreeMemory], after every MR on it is gone.
func AllocMemory(n int) ([]byte, error) {
	if n <= 0 {
		return nil, fmt.Errorf("allocate %d bytes of memory: %w", n, ErrInvalid)
	}
	page := unix.Getpagesize()
	if n > maxInt-page {
		return nil, fmt.Errorf("allocate %d bytes of memory: %w", n, ErrNoMemory)
	}
	size := (n + page - 1) / page * page
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("allocate %d bytes of memory: %w", n, err)
	}
	return b, nil
}

// FreeMemory returns memory to the system. b is what AllocMemory returned, not
// a part of it.
func FreeMemory(b []byte) error {
	if err := unix.Munmap(b); err != nil {
		return fmt.Errorf("free %d bytes of memory: %w", len(b), err)
	}
	return nil
}

const maxInt = int(^uint(0) >> 1)

// AddrOf is the virtual address of b's first byte, as SGEs and keyed SGLs want
// it; 0 for an empty slice. It is stable only for memory from [AllocMemory].
func AddrOf(b []byte) uint64 {
	if len(b) == 0 {
		return 0
	}
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}
