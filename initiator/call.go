package initiator

import (
	"context"
	"sync/atomic"

	"rbd/verbs/bufpool"
)

// callState tells who has to clean up after a call.
type callState uint32

const (
	callPending callState = iota
	// callAnswered: the request came back; the caller cleans up.
	callAnswered
	// callAbandoned: the caller has gone; who gets the request back cleans up.
	callAbandoned
)

// call is a request whose caller waits for it. If the caller stops to wait, the
// buffer stays reserved until the peer can't touch it any more.
type call struct {
	req  Request
	cmd  command
	pool *bufpool.Pool // of req.Buf; nil if the buffer is the caller's own
	done chan struct{}

	state atomic.Uint32 // a callState
	// quit: the caller waits no longer than it must.
	quit atomic.Bool
	// at is the queue that has the request: another may do the work of the one that it
	// was submitted to.
	at atomic.Pointer[Queue]
}

func newCall() *call { return &call{done: make(chan struct{}, 1)} }

// release puts the buffer back.
func (c *call) release() {
	if c.pool != nil && c.req.Buf.Data != nil {
		c.pool.Put(&c.req.Buf)
	}
}

// run submits the call's request and waits for its end or ctx's. A nil error says
// that the call was answered and is the caller's; otherwise it must not be
// touched again.
func (c *call) run(ctx context.Context, q *Queue) error {
	c.start(q)
	return c.wait(ctx)
}

// runInPlace is run with a buffer of the caller's own: if ctx ends, it still waits
// until nobody can touch the buffer any more. The call is the caller's then.
func (c *call) runInPlace(ctx context.Context, q *Queue) {
	c.start(q)
	select {
	case <-c.done:
		return
	case <-ctx.Done():
	}
	c.quit.Store(true)
	c.withdraw(ctx.Err())
	<-c.done
}

// start submits the call's request.
func (c *call) start(q *Queue) {
	c.state.Store(uint32(callPending))
	c.req.Owner, c.req.call = callOwner{}, c
	q.Submit([]*Request{&c.req})
}

// wait is the second half of run.
func (c *call) wait(ctx context.Context) error {
	select {
	case <-c.done:
		return nil
	default:
	}
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
	}
	c.quit.Store(true)
	if !c.state.CompareAndSwap(uint32(callPending), uint32(callAbandoned)) {
		<-c.done
		return nil
	}
	c.withdraw(ctx.Err())
	return ctx.Err()
}

// withdraw takes the request back, wherever it waits, unless it is out. If it is on
// its way from one queue to another, that one sees that quit is set.
func (c *call) withdraw(err error) {
	for q := c.at.Load(); q != nil; {
		if q.withdraw(&c.req, err) {
			return
		}
		at := c.at.Load()
		if at == q {
			return
		}
		q = at
	}
}

// callOwner owns the requests of all calls.
type callOwner struct{}

// Complete implements Owner.
func (callOwner) Complete(batch []*Request) {
	for _, r := range batch {
		c := r.call
		if c.state.CompareAndSwap(uint32(callPending), uint32(callAnswered)) {
			c.done <- struct{}{}
		} else {
			c.release()
		}
	}
}
