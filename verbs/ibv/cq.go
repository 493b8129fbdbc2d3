package ibv

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"rbd/verbs"
	"rbd/verbs/internal/object"
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
	users   object.Users
	events  *eventFD
	tryWait func(uintptr) bool // takes an event; made once

	// armed: an event is wanted; one token in event is one.
	armed  atomic.Bool
	event  object.Event   // fires when armed
	wake   chan struct{}  // for the goroutine of a handled CQ whose device is gone
	server sync.WaitGroup // the goroutine of a handled CQ, or of the events
	serve  sync.Once

	mu    sync.Mutex // who polls; before qp.mu and soft.Mutex
	raw   []wcRecord
	freed bool // at the device
	// batch are completions from the device that nobody has taken yet, from took on.
	// They come before those of soft.
	batch []verbs.WC
	took  int
	soft  softQueue

	taking      sync.Mutex // who takes an event
	freedEvents bool       // of the device; with taking held
}

// softQueue are completions that the provider makes itself.
type softQueue struct {
	sync.Mutex
	wcs []verbs.WC
}

func (d *device) CreateCQ(attr verbs.CQAttr) (verbs.CQ, error) {
	if limit := d.Attr().MaxCQE; attr.Depth < 1 || attr.Depth > limit {
		return nil, fmt.Errorf("create completion queue: depth %d is not in 1..%d: %w", attr.Depth, limit, verbs.ErrInvalid)
	}
	c := &cq{dev: d, handler: attr.Handler, handle: d.p.nextHandle(), event: object.NewEvent(),
		wake: make(chan struct{}, 1), raw: make([]wcRecord, pollBatch)}
	c.tryWait = func(uintptr) bool { return c.takeEvent() }
	if err := d.with(func() error { return c.create(attr.Depth) }); err != nil {
		return nil, d.explain("create completion queue", err)
	}
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
	if c.dev.iwarp { // more is signaled there than was asked for (see sendOrder)
		depth = min(2*depth, c.dev.attr.MaxCQE)
	}
	if c.native, err = lib.createCQ(c.dev.context, depth, c.handle, c.channel); err != nil {
		return errors.Join(err, c.events.close(), lib.destroyChannel(c.channel))
	}
	c.dev.life.add(c)
	return nil
}

// takeEvent takes an event of the device, if there is one and the device.
func (c *cq) takeEvent() bool {
	c.taking.Lock()
	defer c.taking.Unlock()
	return c.freedEvents || c.dev.lib.cqEvent(c.channel) == nil
}

func (*cq) level() int { return levelCQ }

// giveUp frees the device's queue. The completions that are there stay, those of
// the provider come as before.
func (c *cq) giveUp() {
	c.drain(func() { c.freed = true })
	c.taking.Lock()
	c.freedEvents = true
	c.taking.Unlock()
	_ = c.events.close()
	_ = c.dev.lib.destroyCQ(c.native)
	_ = c.dev.lib.destroyChannel(c.channel)
	c.wakeUp()
}

func (c *cq) Poll(wcs []verbs.WC) int {
	if c.handler != nil {
		return 0
	}
	return c.take(wcs)
}

// take moves completions to wcs: first those from the device, then the provider's
// own, which are of QPs that the device has done with.
func (c *cq) take(wcs []verbs.WC) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.event.IsClosed() {
		return 0
	}
	n := c.takeReady(wcs)
	for n < len(wcs) && !c.freed {
		raw := c.raw[:min(len(c.raw), len(wcs)-n)]
		got := c.poll(raw)
		n += c.takeReady(wcs[n:])
		if got < len(raw) {
			break
		}
	}
	return n
}

// poll takes up to len(raw) records from the device and adds their completions to
// the batch. The mutex is held.
func (c *cq) poll(raw []wcRecord) int {
	got := c.dev.lib.poll(c.native, raw)
	for i := range raw[:got] {
		c.batch = c.dev.complete(&raw[i], c.batch)
	}
	return got
}

func (c *cq) takeReady(wcs []verbs.WC) int {
	n := copy(wcs, c.batch[c.took:])
	if c.took += n; c.took == len(c.batch) {
		c.batch, c.took = c.batch[:0], 0
	}
	if n == len(wcs) {
		return n
	}
	c.soft.Lock()
	defer c.soft.Unlock()
	k := copy(wcs[n:], c.soft.wcs)
	if c.soft.wcs = c.soft.wcs[k:]; len(c.soft.wcs) == 0 {
		c.soft.wcs = nil
	}
	return n + k
}

// add appends a completion of the provider's own. The caller tells by kick.
func (c *cq) add(wc verbs.WC) {
	c.soft.Lock()
	c.soft.wcs = append(c.soft.wcs, wc)
	c.soft.Unlock()
}

// drain takes what the device has now, for whoever polls next, and does what then
// says before anyone can.
func (c *cq) drain(then func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.freed && c.poll(c.raw) == len(c.raw) {
		continue
	}
	if then != nil {
		then()
	}
	if len(c.batch) > 0 {
		c.wakeUp()
	}
	c.kick()
}

// kick tells whoever waits that there are completions of the provider's own.
func (c *cq) kick() {
	c.soft.Lock()
	some := len(c.soft.wcs) > 0
	c.soft.Unlock()
	if some {
		c.wakeUp()
	}
}

// wakeUp ends the wait of the handler's goroutine, or a Wait that is armed for it.
func (c *cq) wakeUp() {
	if c.handler == nil {
		c.fire()
		return
	}
	c.events.interrupt()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// fire gives one token if an event is wanted.
func (c *cq) fire() {
	if c.armed.Swap(false) {
		c.event.Fire()
	}
}

func (c *cq) ReqNotify() error {
	if c.event.IsClosed() {
		return fmt.Errorf("arm completion queue: %w", verbs.ErrClosed)
	}
	if c.handler != nil {
		return nil
	}
	c.serve.Do(func() { c.server.Go(c.forward) })
	c.armed.Store(true)
	if err := c.arm(); err != nil {
		return wrap("arm completion queue", err)
	}
	return nil
}

// arm asks the device for one event.
func (c *cq) arm() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.freed {
		return nil
	}
	return c.dev.lib.reqNotify(c.native)
}

// forward turns the device's events into tokens.
func (c *cq) forward() {
	for {
		if c.events.wait(c.tryWait) != nil || c.isGivenUp() {
			return
		}
		c.fire()
	}
}

func (c *cq) Wait(ctx context.Context) error { return c.event.Wait(ctx) }

func (c *cq) Destroy() error {
	if err := c.users.Free("destroy completion queue"); err != nil {
		return err
	}
	c.event.Close()
	c.serve.Do(func() {}) // nobody starts to forward any more
	c.events.interrupt()  // the goroutine, of either kind
	c.server.Wait()
	err := c.dev.with(func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.freed = true
		c.dev.life.drop(c)
		return errors.Join(c.events.close(), c.dev.lib.destroyCQ(c.native), c.dev.lib.destroyChannel(c.channel))
	})
	if err != nil && !errors.Is(err, errDeviceRemoved) {
		return wrap("destroy completion queue", err)
	}
	return nil
}

// isGivenUp says that the device's queue is gone.
func (c *cq) isGivenUp() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.freed
}
