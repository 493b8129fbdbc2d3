package target

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"rbd/verbs"
	"rbd/wire"
)

const (
	// acceptTimeout is how long a peer may take for its part of the connection.
	acceptTimeout = 10 * time.Second
	// lingerTimeout is how long the end of a connection waits for answers that are
	// on their way.
	lingerTimeout = time.Second
)

var (
	errNoConnect = errors.New("no Fabrics Connect came in time")
	errStalled   = errors.New("the peer left all RDMA work undone for too long")
)

// conn is one connection: a queue pair, and the goroutine that looks after it.
type conn struct {
	t  *Target
	id verbs.CMID
	at endpoint
	cq verbs.CQ
	// q is there when ready is closed.
	q     *queue
	ready chan struct{}

	// ctx ends when the connection is cut; its cause is the reason.
	ctx    context.Context
	cancel context.CancelCauseFunc
	waker  chan struct{}
}

func newConn(t *Target, id verbs.CMID, at endpoint) *conn {
	c := &conn{t: t, id: id, at: at, ready: make(chan struct{}), waker: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	return c
}

// cut ends the connection. The first reason counts.
func (c *conn) cut(reason error) { c.cancel(reason) }

func (c *conn) wake() {
	select {
	case c.waker <- struct{}{}:
	default:
	}
}

// run is the life of a connection.
func (c *conn) run() {
	defer c.t.ended(c)
	defer c.cut(nil)
	if reject, err := c.establish(); err != nil {
		c.t.logConn(c.id.RemoteAddr(), "connection refused", err)
		if reject != 0 {
			data := wire.CMReject{Reason: reject}
			err = c.id.Reject(data.Append(nil))
		} else {
			err = c.id.Destroy()
		}
		if err != nil {
			c.t.log.Debug("refuse a connection", "peer", c.id.RemoteAddr(), "err", err)
		}
		return
	}
	reason := c.watch()
	c.logEnd(reason)
	c.teardown(reason)
}

// checkRequest reads the host's private data. depth is the size of the queue.
func (t *Target) checkRequest(p verbs.ConnParam) (req wire.CMRequest, depth int, reject wire.RejectReason) {
	if err := req.Parse(p.PrivateData); err != nil {
		return req, 0, wire.RejectInvalidLength
	}
	most := t.cfg.QueueDepth
	if req.QID == 0 {
		most = adminDepth
	}
	depth = int(req.HSQSize) + 1
	switch {
	case req.RecFmt != 0:
		return req, 0, wire.RejectInvalidRecFmt
	case depth < 2 || depth > most:
		return req, 0, wire.RejectInvalidHSQSize
	case req.HRQSize == 0:
		return req, 0, wire.RejectInvalidHRQSize
	case p.ResponderResources == 0: // data of writes comes by RDMA READ
		return req, 0, wire.RejectInvalidIRD
	}
	return req, depth, 0
}

// establish answers the request. With an error, reject is what the peer is told; 0
// if it is too late for that.
func (c *conn) establish() (reject wire.RejectReason, err error) {
	request := c.id.Request()
	req, depth, reject := c.t.checkRequest(request)
	if reject != 0 {
		return reject, reject
	}
	dev, err := c.t.device(c.id.Device())
	if err != nil {
		return wire.RejectNoResources, err
	}
	c.q, err = newQueue(c.t, dev, depth)
	if err != nil {
		return wire.RejectNoResources, err
	}
	c.q.at, c.q.hostQID, c.q.peer, c.q.cut, c.q.wake = &c.at, req.QID, c.id.RemoteAddr(), c.cut, c.wake
	if c.cq, err = c.q.attach(c.id, dev.pd); err != nil {
		return wire.RejectNoResources, errors.Join(err, c.q.mem.free())
	}
	close(c.ready) // before Accept: commands may come before it returns
	ctx, cancel := context.WithTimeout(c.ctx, acceptTimeout)
	defer cancel()
	reply := wire.CMReply{CRQSize: uint16(depth)}
	_, err = c.id.Accept(ctx, verbs.ConnParam{
		PrivateData:    reply.Append(nil),
		InitiatorDepth: min(request.ResponderResources, c.id.Device().Attr().MaxQPInitRdAtom),
	})
	if err != nil {
		return 0, errors.Join(fmt.Errorf("accept: %w", err), c.free())
	}
	return 0, nil
}

// watch waits for the end of the connection, and returns why it ended.
func (c *conn) watch() error {
	var stall stallWatch
	now := time.Now()
	connectBy, stallAt, keepAliveAt := now.Add(c.t.cfg.ConnectTimeout), now.Add(c.t.cfg.TransferTimeout/2), time.Time{}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		next := stallAt
		if keepAliveAt.Before(next) && !keepAliveAt.IsZero() {
			next = keepAliveAt
		}
		if !connectBy.IsZero() && connectBy.Before(next) {
			next = connectBy
		}
		timer.Reset(time.Until(next))
		select {
		case <-c.id.Disconnected():
			return c.id.Err()
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		case <-c.waker:
		case <-timer.C:
		}
		now = time.Now()
		bound := c.q.bound.Load()
		switch {
		case bound != nil:
			connectBy = time.Time{}
		case connectBy.IsZero(): // its Connect was given up
			connectBy = now.Add(c.t.cfg.ConnectTimeout)
		case !now.Before(connectBy):
			return errNoConnect
		}
		if bound != nil && bound.binding.qid == 0 {
			var expired bool
			if keepAliveAt, expired = bound.ctrl.checkKeepAlive(now); expired {
				return errKeepAlive
			}
		}
		if !now.Before(stallAt) {
			if stall.check(c.q) {
				return errStalled
			}
			stallAt = now.Add(c.t.cfg.TransferTimeout / 2)
		}
	}
}

// stallWatch notices a peer that does nothing though it should.
type stallWatch struct {
	progress uint32
	strikes  int
}

// check looks at the queue, twice in a transfer time-out; true at the third look
// that finds no progress.
func (w *stallWatch) check(q *queue) bool {
	progress := q.progress.Load()
	if q.waiting.Load() == 0 || progress != w.progress {
		w.progress, w.strikes = progress, 0
		return false
	}
	w.strikes++
	return w.strikes >= 3
}

// teardown ends the connection, waits for what it still does on backends, and
// frees everything.
func (c *conn) teardown(reason error) {
	q := c.q
	if b := q.bound.Load(); b != nil {
		b.ctrl.lose(b.binding, reason)
	}
	if err := c.id.Disconnect(); err == nil {
		linger := time.NewTimer(lingerTimeout)
		select {
		case <-c.id.Disconnected():
		case <-linger.C:
		}
		linger.Stop()
	}
	err := errors.Join(q.qp.Destroy(), c.cq.Destroy())
	q.call(q.die)
	bound := q.bound.Load()
	if bound != nil { // a Connect may have come in between
		bound.ctrl.lose(bound.binding, reason)
	}
	<-q.drained
	if bound = q.bound.Load(); bound != nil {
		bound.ctrl.lose(bound.binding, reason) // the Connect may have been under way all the time
		bound.ctrl.drained(bound.binding)
	}
	if err := errors.Join(err, q.mem.free(), c.id.Destroy()); err != nil {
		c.t.log.Error("free a connection", "peer", c.id.RemoteAddr(), "err", err)
	}
}

// free undoes establish before anything has run.
func (c *conn) free() error {
	return errors.Join(c.q.qp.Destroy(), c.cq.Destroy(), c.q.mem.free())
}

// logEnd tells of the end of an association, or of a connection that never became
// one.
func (c *conn) logEnd(reason error) {
	bound := c.q.bound.Load()
	switch {
	case bound == nil:
		c.t.logConn(c.id.RemoteAddr(), "connection ended", reason)
	case bound.binding.qid == 0:
		c.t.log.Info("host disconnected", "host", bound.ctrl.host.nqn, "subsystem", bound.ctrl.sub.nqn,
			"controller", bound.ctrl.cntlid, "peer", c.id.RemoteAddr(), "why", reason)
	default:
		c.t.log.Debug("queue disconnected", "host", bound.ctrl.host.nqn, "subsystem", bound.ctrl.sub.nqn,
			"controller", bound.ctrl.cntlid, "queue", bound.binding.qid, "why", reason)
	}
}

// logConn logs what any peer can cause, at a bounded rate.
func (t *Target) logConn(peer net.Addr, what string, err error) {
	if skipped, ok := t.refusals.allow(); ok {
		t.log.Warn(what, "peer", peer, "err", err, "more", skipped)
	}
}
