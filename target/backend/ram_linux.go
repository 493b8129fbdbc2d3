package backend

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// ramStripe is the unit of locking: no block crosses its bounds, so that a
	// read never sees half of a concurrent write's block.
	ramStripe = 64 << 10
	// ramLocks is how many locks the stripes share.
	ramLocks = 128
	// ramRun is how much is given back to the system in one piece, under all locks.
	ramRun = 64 << 20
)

// RAM keeps the blocks in anonymous memory, whose pages are backed when they are
// first written. Its data is gone when it is closed.
type RAM struct {
	mem       []byte
	blockSize int
	pageSize  int
	locks     [ramLocks]struct {
		sync.RWMutex
		_ [40]byte // a cache line for each, so that neighbours do not slow each other
	}
}

// NewRAM makes a RAM backend of size bytes of zeros; block size 0 means 512.
func NewRAM(size int64, blockSize int) (*RAM, error) {
	if blockSize == 0 {
		blockSize = defaultBlockSize
	}
	if err := checkGeometry("ram", size, blockSize); err != nil {
		return nil, err
	}
	if size > int64(^uint(0)>>1) {
		return nil, fmt.Errorf("ram: size %d is more than this machine can address", size)
	}
	mem, err := unix.Mmap(-1, 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("ram: allocate %d bytes: %w", size, err)
	}
	// Fewer page faults; a kernel that has no huge pages says so, and small ones do.
	_ = unix.Madvise(mem, unix.MADV_HUGEPAGE)
	return &RAM{mem: mem, blockSize: blockSize, pageSize: os.Getpagesize()}, nil
}

// Attributes implements Backend.
func (b *RAM) Attributes() Attributes {
	return Attributes{BlockSize: b.blockSize, TrimGranularity: b.pageSize, ReadsZeroAfterTrim: true, NonBlocking: true}
}

// Size implements Backend.
func (b *RAM) Size() int64 { return int64(len(b.mem)) }

// Refresh implements Backend: the size is fixed.
func (b *RAM) Refresh() (int64, error) { return b.Size(), nil }

// TryReadAt implements Backend.
func (b *RAM) TryReadAt(p []byte, off int64) error { return b.ReadAt(p, off) }

// TryWriteAt implements Backend.
func (b *RAM) TryWriteAt(p []byte, off int64, flags Flags) error { return b.WriteAt(p, off, flags) }

// ReadAt implements Backend.
func (b *RAM) ReadAt(p []byte, off int64) error {
	if err := checkRange(OpRead, off, int64(len(p)), b.Size()); err != nil {
		return err
	}
	for len(p) > 0 {
		n := stripePart(off, int64(len(p)))
		lock := &b.locks[off/ramStripe%ramLocks]
		lock.RLock()
		copy(p[:n], b.mem[off:])
		lock.RUnlock()
		p, off = p[n:], off+n
	}
	return nil
}

// WriteAt implements Backend. Nothing outlives the process, so FUA adds nothing.
func (b *RAM) WriteAt(p []byte, off int64, _ Flags) error {
	if err := checkRange(OpWrite, off, int64(len(p)), b.Size()); err != nil {
		return err
	}
	for len(p) > 0 {
		n := stripePart(off, int64(len(p)))
		lock := &b.locks[off/ramStripe%ramLocks]
		lock.Lock()
		copy(b.mem[off:off+n], p)
		lock.Unlock()
		p, off = p[n:], off+n
	}
	return nil
}

// stripePart is how many of n bytes at off are in off's stripe.
func stripePart(off, n int64) int64 { return min(n, ramStripe-off%ramStripe) }

// Flush implements Backend: there is nothing behind the memory.
func (b *RAM) Flush() error { return nil }

// Trim implements Backend: whole pages go back to the system, the rest is
// cleared.
func (b *RAM) Trim(off, n int64) error {
	if err := checkRange(OpTrim, off, n, b.Size()); err != nil {
		return err
	}
	return b.zero(off, n, true)
}

// WriteZeroes implements Backend.
func (b *RAM) WriteZeroes(off, n int64, flags Flags) error {
	if err := checkRange(OpWriteZeroes, off, n, b.Size()); err != nil {
		return err
	}
	return b.zero(off, n, flags&Deallocate != 0)
}

func (b *RAM) zero(off, n int64, free bool) error {
	for n > 0 {
		part, locks := stripePart(off, n), b.locks[off/ramStripe%ramLocks:][:1]
		if free && off%ramStripe == 0 && n >= ramLocks*ramStripe {
			part, locks = min(n/ramStripe*ramStripe, ramRun), b.locks[:]
		}
		for i := range locks { // in this order, and nobody else takes more than one
			locks[i].Lock()
		}
		err := b.zeroRange(off, off+part, free)
		for i := range locks {
			locks[i].Unlock()
		}
		if err != nil {
			return fmt.Errorf("ram: free %d bytes at %d: %w", part, off, err)
		}
		off, n = off+part, n-part
	}
	return nil
}

// zeroRange zeroes mem[off:end], by freeing the whole pages in it if free is set.
func (b *RAM) zeroRange(off, end int64, free bool) error {
	page := int64(b.pageSize)
	first, last := (off+page-1)/page*page, end/page*page
	if !free || first >= last {
		clear(b.mem[off:end])
		return nil
	}
	clear(b.mem[off:first])
	clear(b.mem[last:end])
	return unix.Madvise(b.mem[first:last], unix.MADV_DONTNEED)
}

// Close implements Backend.
func (b *RAM) Close() error {
	if err := unix.Munmap(b.mem); err != nil {
		return fmt.Errorf("ram: free the memory: %w", err)
	}
	b.mem = nil
	return nil
}
