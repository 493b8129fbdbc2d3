package perf

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"rbd/verbs"
)

const (
	// connectTime bounds the making of a connection.
	connectTime = 20 * time.Second
	// stallTime is how long a test may make no progress.
	stallTime = 10 * time.Second
	// stopTime is how long a test that is over may take to finish what is out.
	stopTime = 5 * time.Second
)

var (
	errStalled   = fmt.Errorf("nothing was done for %v: the peer or the network is stuck", stallTime)
	errTimeLimit = fmt.Errorf("stopped after %v, which is the most that a test may take", iterationsTime)
)

// Result is what was measured.
type Result struct {
	Config
	// Iterations is how many were measured.
	Iterations int
	// Elapsed is the time from the first post that was measured to the end.
	Elapsed time.Duration
	// Bandwidth is that of WriteBW and ReadBW, Latency that of the others.
	Bandwidth Bandwidth
	Latency   Latency
}

// test is one of the ways to measure. begin starts it on an open connection;
// handle takes the completions; result is called when everything has ended.
type test interface {
	begin() error
	handle(batch []verbs.WC)
	result() Result
}

// client is the client's end of a test.
type client struct {
	endpoint
	cfg    Config
	remote Reply
	inline int
	test   test

	base     time.Time
	stopping atomic.Bool   // no more requests
	progress atomic.Uint64 // changes while the test gets on
	loops    sync.WaitGroup
	once     sync.Once
	done     chan struct{} // closed when the test is over
	err      error         // why, when done is closed
}

// Run runs one test against a [Server] at addr. When ctx ends early, or an error
// ends the test, what was measured until then is returned with the error;
// Result.Iterations is 0 if that is nothing.
func Run(ctx context.Context, p verbs.Provider, addr verbs.Addr, cfg Config) (Result, error) {
	if err := cfg.complete(); err != nil {
		return Result{}, err
	}
	c := &client{cfg: cfg, done: make(chan struct{})}
	if err := c.connect(ctx, p, addr); err != nil {
		return Result{Config: cfg}, fmt.Errorf("%s with %s: %w", cfg.Op, addr, err)
	}
	if cfg.Connected != nil {
		cfg.Connected()
	}
	err := c.measure(ctx)
	c.stopping.Store(true)
	c.loops.Wait()
	if e := c.close(); err == nil {
		err = e
	}
	if err != nil {
		err = fmt.Errorf("%s with %s: %w", cfg.Op, addr, err)
	}
	return c.test.result(), err
}

// connect makes the connection and the test.
func (c *client) connect(ctx context.Context, p verbs.Provider, addr verbs.Addr) error {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	cm, err := p.ResolveAddr(ctx, addr)
	if err != nil {
		return err
	}
	attr := cm.Device().Attr()
	n := c.needs(attr)
	if n.sends > attr.MaxQPWR || n.sends+n.recvs > attr.MaxCQE {
		return errors.Join(fmt.Errorf("depth %d is more than device %s has", c.cfg.TxDepth, cm.Device().Name()), cm.Destroy())
	}
	if err := c.open(cm, n); err != nil {
		return errors.Join(err, cm.Destroy())
	}
	if err := c.shakeHands(ctx, attr); err != nil {
		return errors.Join(err, c.close())
	}
	return nil
}

// needs makes the test, and says what it needs.
func (c *client) needs(attr verbs.DeviceAttr) *needs {
	n := &needs{op: c.cfg.Op, size: c.cfg.Size, poll: c.cfg.Poll && c.cfg.Op.polls(), sends: c.cfg.TxDepth + 1, recvs: 1}
	_, n.access = c.cfg.Op.access()
	if c.cfg.Op.Latency() {
		n.sends, n.recvs = pingDepth, pingRecvs
		c.inline = inlineFor(attr, c.cfg.Size)
		n.inline = c.inline
	}
	switch c.cfg.Op {
	case SendLat:
		c.test = newSendLat(c)
	case WriteLat:
		c.test = newWriteLat(c)
	default:
		c.test = newBandwidth(c)
	}
	n.handle = c.test.handle
	return n
}

// shakeHands connects and reads the server's answer.
func (c *client) shakeHands(ctx context.Context, attr verbs.DeviceAttr) error {
	req := Request{Op: c.cfg.Op, Poll: c.cfg.Poll, Size: uint32(c.cfg.Size), Seconds: uint32(math.Ceil(c.cfg.limit().Seconds()))}
	if c.cfg.Op == WriteLat {
		req.RKey, req.Addr = c.mr.RKey(), c.mr.Addr()+uint64(recvOffset(c.cfg.Size))
	}
	param := verbs.ConnParam{PrivateData: req.Append(nil)}
	if c.cfg.Op == ReadBW {
		param.InitiatorDepth = min(attr.MaxQPInitRdAtom, c.cfg.TxDepth)
	}
	answer, err := c.cm.Connect(ctx, param)
	var rejected *verbs.RejectError
	if errors.As(err, &rejected) {
		var r Reject
		if r.Parse(rejected.PrivateData) == nil {
			return r.Reason
		}
		if rejected.Reason == "" { // it was not the provider
			return fmt.Errorf("%w; is 'rbd-target perf' there? 'rbd-target serve' has another port", err)
		}
	}
	if err != nil {
		return err
	}
	if err := c.remote.Parse(answer.PrivateData); err != nil {
		return fmt.Errorf("%w; is 'rbd-target perf' there?", err)
	}
	if c.cfg.Op != SendLat && (int(c.remote.Size) < c.cfg.Size || c.remote.Addr > 1<<64-1-uint64(c.cfg.Size)) {
		return errors.New("the server's memory is not what was asked for")
	}
	return nil
}

// now is the time since the test began.
func (c *client) now() time.Duration { return time.Since(c.base) }

// finish ends the test. The first call counts.
func (c *client) finish(err error) {
	c.once.Do(func() {
		c.err = err
		close(c.done)
	})
}

// measure runs the test until it is done, and returns why it ended early.
func (c *client) measure(ctx context.Context) (early error) {
	c.base = time.Now()
	if err := c.test.begin(); err != nil {
		return err
	}
	limit := time.NewTimer(c.cfg.limit())
	defer limit.Stop()
	ticker := time.NewTicker(stallTime / 2)
	defer ticker.Stop()
	interrupt := ctx.Done()
	var finishBy <-chan time.Time
	var watch stallWatch
	stop := func(why error) {
		interrupt, early, finishBy = nil, why, time.After(stopTime)
		c.stopping.Store(true)
	}
	for {
		select {
		case <-c.done:
			return errors.Join(c.err, early)
		case <-c.cm.Disconnected():
			return c.ended()
		case <-interrupt:
			stop(ctx.Err())
		case <-limit.C:
			if c.cfg.Duration > 0 {
				stop(early)
			} else {
				stop(errTimeLimit)
			}
		case <-finishBy:
			return errors.Join(early, errStalled)
		case <-ticker.C:
			if watch.stalled(c.progress.Load()) {
				return errStalled
			}
		}
	}
}

// ended is why the connection ended before the test did.
func (c *client) ended() error {
	select {
	case <-c.done:
		if c.err != nil {
			return c.err
		}
	default:
	}
	return fmt.Errorf("the connection ended before the test did: %w", c.cm.Err())
}

// stallWatch notices when a counter stands still.
type stallWatch struct {
	last    uint64
	strikes int
}

// stalled is called every stallTime/2: true at the second look in a row that finds
// no progress.
func (w *stallWatch) stalled(progress uint64) bool {
	if progress != w.last {
		w.last, w.strikes = progress, 0
		return false
	}
	w.strikes++
	return w.strikes >= 2
}
