package ibv

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"rbd/verbs"
)

const (
	// retryCount is how often a packet is sent again without acknowledgement: the
	// most there is.
	retryCount = 7
	// rnrRetryCount is how often a message is sent again to a peer that has posted
	// no receive: 7 would be forever.
	rnrRetryCount = 6
)

// begin checks the parameters and moves the CMID to connecting.
func (c *cmid) begin(passive bool, p verbs.ConnParam) (*qp, error) {
	a := &c.dev.attr
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.state == stateDestroyed:
		return nil, verbs.ErrClosed
	case c.passive != passive || c.state != stateIdle:
		return nil, fmt.Errorf("it is connected, has ended, or is of the other side: %w", verbs.ErrState)
	case c.qp == nil:
		return nil, fmt.Errorf("there is no queue pair: %w", verbs.ErrState)
	case len(p.PrivateData) > a.MaxPrivateData:
		return c.qp, fmt.Errorf("%d bytes of private data, the limit is %d: %w", len(p.PrivateData), a.MaxPrivateData, verbs.ErrInvalid)
	case p.ResponderResources < 0 || p.ResponderResources > a.MaxQPRdAtom || p.InitiatorDepth < 0 || p.InitiatorDepth > a.MaxQPInitRdAtom:
		return c.qp, fmt.Errorf("responder resources %d and initiator depth %d, the device has %d and %d: %w",
			p.ResponderResources, p.InitiatorDepth, a.MaxQPRdAtom, a.MaxQPInitRdAtom, verbs.ErrInvalid)
	}
	c.state = stateConnecting
	return c.qp, nil
}

func (c *cmid) Connect(ctx context.Context, p verbs.ConnParam) (verbs.ConnParam, error) {
	q, err := c.begin(false, p)
	if err != nil {
		if q != nil {
			c.end(err)
		}
		return verbs.ConnParam{}, fmt.Errorf("connect: %w", err)
	}
	q.allowReads(p.InitiatorDepth)
	var e cmEvent
	err = c.start(ctx, func(id uintptr) error { return c.p.lib.connect(id, record(p)) })
	if err == nil {
		e, err = c.await(ctx)
	}
	if err == nil {
		_, err = c.learn() // the port of this side
	}
	if err != nil {
		c.end(err)
		c.hangUp()
		return verbs.ConnParam{}, fmt.Errorf("connect to %v: %w", c.RemoteAddr(), err)
	}
	resources, depth := c.dev.answered(e)
	return verbs.ConnParam{PrivateData: e.conn.privateData, ResponderResources: resources, InitiatorDepth: min(depth, p.ResponderResources)}, nil
}

// answered are the resources and the depth of the peer that accepted. InfiniBand's
// event has this side's view, in which the resources are the depth of the peer;
// iWARP's has the peer's.
func (d *device) answered(e cmEvent) (resources, depth int) {
	if d.iwarp {
		return int(e.conn.responderResources), int(e.conn.initiatorDepth)
	}
	return int(e.conn.initiatorDepth), int(e.conn.responderResources)
}

func (c *cmid) Accept(ctx context.Context, p verbs.ConnParam) (verbs.ConnParam, error) {
	q, err := c.begin(true, p)
	if err != nil {
		return verbs.ConnParam{}, fmt.Errorf("accept: %w", err)
	}
	p.ResponderResources = min(p.ResponderResources, c.request.InitiatorDepth)
	p.InitiatorDepth = min(p.InitiatorDepth, c.request.ResponderResources)
	// Before the library does: a message may come, and be answered, before it has
	// returned.
	q.allowReads(p.InitiatorDepth)
	q.established()
	err = c.start(ctx, func(id uintptr) error { return c.p.lib.accept(id, record(p)) })
	if err == nil {
		_, err = c.await(ctx)
	}
	if err != nil {
		c.end(err)
		c.hangUp()
		return verbs.ConnParam{}, fmt.Errorf("accept %v: %w", c.RemoteAddr(), err)
	}
	return verbs.ConnParam{ResponderResources: p.ResponderResources, InitiatorDepth: p.InitiatorDepth}, nil
}

func record(p verbs.ConnParam) connRecord {
	return connRecord{privateData: append([]byte(nil), p.PrivateData...), responderResources: uint8(p.ResponderResources),
		initiatorDepth: uint8(p.InitiatorDepth), retryCount: retryCount, rnrRetryCount: rnrRetryCount}
}

// start makes a call of the library that some drivers let wait for the peer, and
// waits for it, but not longer than ctx.
func (c *cmid) start(ctx context.Context, f func(id uintptr) error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	result := make(chan error, 1)
	go func() {
		done, err := c.call(f)
		if !done {
			err = verbs.ErrClosed
		}
		result <- err
	}()
	select {
	case err := <-result:
		if err != nil {
			return c.explainConnect(err)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// await waits for the connection's answer.
func (c *cmid) await(ctx context.Context) (cmEvent, error) {
	for {
		select {
		case e := <-c.answer:
			if done, err := c.judge(e); done {
				return e, err
			}
		case <-c.disconnected:
			return cmEvent{}, fmt.Errorf("ended meanwhile: %w", c.Err())
		case <-ctx.Done():
			return cmEvent{}, ctx.Err()
		}
	}
}

// judge says whether an event is the answer, and what it means.
func (c *cmid) judge(e cmEvent) (done bool, err error) {
	switch e.event {
	case cmEstablished:
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.state != stateConnecting {
			return true, fmt.Errorf("ended meanwhile: %w", c.err)
		}
		c.state = stateConnected
		return true, nil
	case cmRejected:
		return true, rejected(c.dev.iwarp, e)
	case cmUnreachable:
		return true, fmt.Errorf("the peer does not answer: %w", statusError(e.status))
	case cmConnectError:
		return true, c.explainConnect(statusError(e.status))
	case cmDisconnected:
		return true, verbs.ErrDisconnected
	case cmDeviceRemoval:
		return true, errDeviceRemoved
	}
	return false, nil
}

// statusError is the error in an event's status, a negative errno.
func statusError(status int32) error {
	if status >= 0 {
		return fmt.Errorf("status %d", status)
	}
	return unix.Errno(-status)
}

// explainConnect adds what is usually behind an error of connecting.
func (c *cmid) explainConnect(err error) error {
	hint := ""
	switch {
	case errors.Is(err, unix.EINVAL) && c.passive && !c.dev.iwarp:
		hint = "; the path of the request does not fit this port: look whether both ends have the same MTU"
	case errors.Is(err, unix.ECONNREFUSED):
		hint = "; nobody listens there"
	case errors.Is(err, unix.ENOMEM):
		hint = "; memory is short, or the memory-lock limit (RLIMIT_MEMLOCK) too small"
	}
	return fmt.Errorf("%w%s", err, hint)
}

func (c *cmid) Reject(privateData []byte) error {
	c.mu.Lock()
	state := c.state
	c.mu.Unlock()
	switch {
	case state == stateDestroyed:
		return fmt.Errorf("reject: %w", verbs.ErrClosed)
	case !c.passive || state != stateIdle:
		return fmt.Errorf("reject: %w", verbs.ErrState)
	case len(privateData) > c.dev.attr.MaxPrivateData:
		return fmt.Errorf("reject: %d bytes of private data, the limit is %d: %w", len(privateData), c.dev.attr.MaxPrivateData, verbs.ErrInvalid)
	}
	_, err := c.call(func(id uintptr) error { return c.p.lib.reject(id, privateData) })
	if err != nil {
		err = wrap("reject", err)
	}
	return errors.Join(err, c.Destroy())
}
