package iwarp

import (
	"context"
	"fmt"
	"sync"

	"rbd/verbs"
	"rbd/verbs/internal/object"
)

// cq is a completion queue: a ring under a mutex. Its mutex is the innermost one
// of the package.
type cq struct {
	dev     *device
	handler func([]verbs.WC)
	users   object.Users
	event   object.Event // fires when armed

	mu      sync.Mutex
	ring    []verbs.WC
	head, n int
	armed   bool
	// active: a goroutine is in the handler, or about to be; it looks for more
	// before it ends, so others need not.
	active bool
	idle   sync.Cond // on mu, for Destroy
	batch  []verbs.WC
}

// maxBatch bounds the completions of one handler call, so that what the handler
// posts in one call is bounded too.
const maxBatch = 256

func newCQ(d *device, attr verbs.CQAttr) *cq {
	c := &cq{dev: d, handler: attr.Handler, ring: make([]verbs.WC, attr.Depth),
		event: object.NewEvent()}
	c.idle.L = &c.mu
	if c.handler != nil {
		c.batch = make([]verbs.WC, min(attr.Depth, maxBatch))
	}
	return c
}

// add appends a completion; false when the queue is full.
func (c *cq) add(wc *verbs.WC) bool {
	c.mu.Lock()
	if c.n == len(c.ring) {
		c.mu.Unlock()
		return false
	}
	i := c.head + c.n
	if i >= len(c.ring) {
		i -= len(c.ring)
	}
	c.ring[i] = *wc
	c.n++
	armed := c.armed
	c.armed = false
	c.mu.Unlock()
	if armed {
		c.event.Fire()
	}
	return true
}

// take moves completions to wcs. The caller holds mu.
func (c *cq) take(wcs []verbs.WC) int {
	k := min(c.n, len(wcs))
	first := copy(wcs[:k], c.ring[c.head:])
	copy(wcs[first:k], c.ring)
	if c.head += k; c.head >= len(c.ring) {
		c.head -= len(c.ring)
	}
	c.n -= k
	return k
}

func (c *cq) Poll(wcs []verbs.WC) int {
	if c.handler != nil {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.take(wcs)
}

func (c *cq) ReqNotify() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.event.IsClosed() {
		return fmt.Errorf("arm completion queue: %w", verbs.ErrClosed)
	}
	c.armed = true
	return nil
}

func (c *cq) Wait(ctx context.Context) error { return c.event.Wait(ctx) }

func (c *cq) Destroy() error {
	if err := c.users.Free("destroy completion queue"); err != nil {
		return err
	}
	c.mu.Lock()
	for c.active {
		c.idle.Wait()
	}
	c.n = 0
	c.event.Close()
	c.mu.Unlock()
	return nil
}

// nextBatch makes the caller the one that calls the handler, or, if it is so
// already, takes the next completions. It returns none, and ends the role, when
// there are none or another goroutine has it.
func (c *cq) nextBatch(mine bool) []verbs.WC {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.active && !mine {
		return nil
	}
	k := c.take(c.batch)
	if c.active = k > 0; !c.active && mine {
		c.idle.Broadcast()
	}
	return c.batch[:k]
}

// leave ends the role of the one that calls the handler; more says that there are
// completions to call it for.
func (c *cq) leave() (more bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.active = false
	c.idle.Broadcast()
	return c.n > 0
}

// unserved says whether completions wait for a handler that nobody is calling.
func (c *cq) unserved() bool {
	if c.handler == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n > 0 && !c.active
}
