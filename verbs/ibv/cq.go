package ibv

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"rbd/verbs"
)

const (
	// maxBatch bounds the completions of one handler call.
	maxBatch = 256
	// pollBatch is how many completions are taken from the device at a time.
	pollBatch = 64
)

// cq is a completion queue of the device, and behind it the completions that the
// provider makes itself (see the package comment).
type cq struct {
	dev     *device
	handle  uint64
	channel uintptr
	native  uintptr
	handler func([]verbs.WC)
	users   users
	events  *eventFD
	tryWait func(uintptr) bool // takes an event; made once

	// armed: an event is wanted; one token in event is one.
	armed  atomic.Bool
	event  chan struct{}
	closed chan struct{}
	server sync.WaitGroup // the goroutine of a handled CQ, or of the events
	serve  sync.Once

	mu    sync.Mutex // who polls; before qp.mu and soft.Mutex
	raw   []wcRecord
	freed bool
	soft  softQueue
}

// softQueue are completions that come before those of the device.
type softQueue struct {
	sync.Mutex
	wcs []verbs.WC
}

func (d *device) CreateCQ(attr verbs.CQAttr) (verbs.CQ, error) {
	if limit := d.Attr().MaxCQE; attr.Depth < 1 || attr.Depth > limit {
		return nil, fmt.Errorf("create completion queue: depth %d is not in 1..%d: %w", attr.Depth, limit, verbs.ErrInvalid)
	}
	c := &cq{dev: d, handler: attr.Handler, handle: d.p.nextHandle(), event: make(chan struct{}, 1), closed: make(chan struct{}),
		raw: make([]wcRecord, pollBatch)}
	// An error that is not EAGAIN comes from a device that is gone, and stays.
	c.tryWait = func(uintptr) bool { return d.lib.cqEvent(c.channel) == nil }
	if err := c.create(attr.Depth); err != nil {
		return nil, d.explain("create completion queue", err)
	}
	d.addCQ(c)
	if c.handler != nil {
		c.server.Go(c.runHandler)
	}
	return c, nil
}

func (c *cq) create(depth int) (err error) {
	lib := c.dev.lib
	var fd int
	if c.channel, fd, err = lib.createChannel(c.dev.context); err != nil {
		return fmt.Errorf("completion channel: %w", err)
	}
	if c.events, err = newEventFD(fd, c.dev.name+" completions"); err != nil {
		return errors.Join(err, lib.destroyChannel(c.channel))
	}
	if c.native, err = lib.createCQ(c.dev.context, depth, c.handle, c.channel); err != nil {
		return errors.Join(err, c.events.close(), lib.destroyChannel(c.channel))
	}
	return nil
}

func (c *cq) Poll(wcs []verbs.WC) int {
	if c.handler != nil {
		return 0
	}
	return c.take(wcs)
}

// take moves completions to wcs, the provider's own first.
func (c *cq) take(wcs []verbs.WC) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.freed {
		return 0
	}
	n := c.takeSoft(wcs)
	for n < len(wcs) {
		raw := c.raw[:min(len(c.raw), len(wcs)-n)]
		got := c.dev.lib.poll(c.native, raw)
		for i := range raw[:got] {
			if c.dev.complete(&raw[i], &wcs[n]) {
				n++
			}
		}
		if got < len(raw) {
			break
		}
	}
	return n
}

func (c *cq) takeSoft(wcs []verbs.WC) int {
	c.soft.Lock()
	defer c.soft.Unlock()
	n := copy(wcs, c.soft.wcs)
	if c.soft.wcs = c.soft.wcs[n:]; len(c.soft.wcs) == 0 {
		c.soft.wcs = nil
	}
	return n
}

// add appends a completion of the provider's own. The caller tells by kick.
func (c *cq) add(wc verbs.WC) {
	c.soft.Lock()
	c.soft.wcs = append(c.soft.wcs, wc)
	c.soft.Unlock()
}

// drain moves what the device has now to the provider's own completions, then does
// what then says, before anyone can poll again.
func (c *cq) drain(then func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.freed {
		got := c.dev.lib.poll(c.native, c.raw)
		for i := range c.raw[:got] {
			var wc verbs.WC
			if c.dev.complete(&c.raw[i], &wc) {
				c.add(wc)
			}
		}
		if got < len(c.raw) {
			break
		}
	}
	if then != nil {
		then()
	}
	c.kick()
}

// kick tells whoever waits that there are completions of the provider's own.
func (c *cq) kick() {
	if c.handler != nil {
		c.events.interrupt()
		return
	}
	c.soft.Lock()
	some := len(c.soft.wcs) > 0
	c.soft.Unlock()
	if some {
		c.fire()
	}
}

// fire gives one token if an event is wanted.
func (c *cq) fire() {
	if c.armed.Swap(false) {
		select {
		case c.event <- struct{}{}:
		default:
		}
	}
}

func (c *cq) ReqNotify() error {
	if c.isClosed() {
		return fmt.Errorf("arm completion queue: %w", verbs.ErrClosed)
	}
	if c.handler != nil {
		return nil
	}
	c.serve.Do(func() { c.server.Go(c.forward) })
	c.armed.Store(true)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.freed {
		return fmt.Errorf("arm completion queue: %w", verbs.ErrClosed)
	}
	if err := c.dev.lib.reqNotify(c.native); err != nil && !c.dev.removed.Load() {
		return wrap("arm completion queue", err)
	}
	return nil
}

// forward turns the device's events into tokens.
func (c *cq) forward() {
	for {
		if err := c.events.wait(c.tryWait); err != nil {
			return // closed
		}
		c.fire()
	}
}

func (c *cq) isClosed() bool {
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

func (c *cq) Wait(ctx context.Context) error {
	if c.isClosed() {
		return fmt.Errorf("wait for completion queue: %w", verbs.ErrClosed)
	}
	select {
	case <-c.event:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.closed:
		return fmt.Errorf("wait for completion queue: %w", verbs.ErrClosed)
	}
}

func (c *cq) Destroy() error {
	if err := c.users.free("destroy completion queue"); err != nil {
		return err
	}
	c.dev.removeCQ(c)
	close(c.closed)
	c.serve.Do(func() {}) // nobody starts to forward any more
	c.events.interrupt()
	c.server.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.freed = true
	err := c.events.close()
	if e := c.dev.lib.destroyCQ(c.native); e != nil && !c.dev.removed.Load() {
		err = errors.Join(err, e)
	}
	if e := c.dev.lib.destroyChannel(c.channel); e != nil && !c.dev.removed.Load() {
		err = errors.Join(err, e)
	}
	if err != nil {
		return wrap("destroy completion queue", err)
	}
	return nil
}
