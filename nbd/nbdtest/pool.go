package nbdtest

import (
	"context"
	"fmt"
	"math/bits"
	"sync"

	"golang.org/x/sys/unix"

	"rbd/nbd"
)

// inUse counts buffers over all queues of a device.
type inUse struct {
	mu sync.Mutex
	n  int
}

func (u *inUse) add(n int) {
	u.mu.Lock()
	u.n += n
	u.mu.Unlock()
}

func (u *inUse) get() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.n
}

// pool is buffer memory in size classes of powers of two, mapped when first
// needed. Handle[0] of a buffer is its class plus one, so that a buffer that
// was never allocated, or is freed twice, is noticed.
type pool struct {
	err     error // of every allocation
	mu      sync.Mutex
	left    int
	free    [32][][]byte
	mapped  [][]byte
	changed chan struct{} // closed and renewed when memory comes back
	waiters int
	inUse   *inUse
}

func newPool(size int, u *inUse) *pool {
	if size == 0 {
		size = 64 << 20
	}
	return &pool{left: size, changed: make(chan struct{}), inUse: u}
}

// class is the size class for n bytes: at least a page.
func class(n int) int { return max(12, bits.Len(uint(n-1))) }

// TryAlloc gets memory if there is some.
func (p *pool) TryAlloc(n int, buf *nbd.Buffer) bool {
	k := class(n)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil || p.left < 1<<k {
		return false
	}
	f := p.free[k]
	if len(f) == 0 {
		m, err := mapMemory(1 << k)
		if err != nil {
			return false
		}
		p.mapped = append(p.mapped, m)
		f = append(f, m)
	}
	buf.Data = f[len(f)-1][:n]
	buf.Handle[0] = uint64(k) + 1
	p.free[k] = f[:len(f)-1]
	p.left -= 1 << k
	p.inUse.add(1)
	return true
}

// Alloc waits for memory.
func (p *pool) Alloc(ctx context.Context, n int, buf *nbd.Buffer) error {
	for {
		p.mu.Lock()
		changed := p.changed
		p.waiters++
		p.mu.Unlock()
		if p.err != nil {
			return p.err
		}
		if p.TryAlloc(n, buf) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Free takes memory back.
func (p *pool) Free(buf *nbd.Buffer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if buf.Handle[0] == 0 {
		panic("nbdtest: a buffer is freed that is not allocated")
	}
	k := int(buf.Handle[0] - 1)
	p.free[k] = append(p.free[k], buf.Data[:1<<k])
	p.left += 1 << k
	p.inUse.add(-1)
	*buf = nbd.Buffer{}
	if p.waiters > 0 {
		p.waiters = 0
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// close unmaps the memory.
func (p *pool) close() error {
	for _, m := range p.mapped {
		if err := unix.Munmap(m); err != nil {
			return fmt.Errorf("unmap buffer: %w", err)
		}
	}
	return nil
}

// mapMemory gets n bytes of zeroes from outside the Go heap.
func mapMemory(n int) ([]byte, error) {
	m, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes of memory: %w", n, err)
	}
	return m, nil
}
