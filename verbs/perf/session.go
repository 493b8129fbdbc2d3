package perf

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"rbd/verbs"
)

// overtime is how much longer than it said a client may stay.
const overtime = 10 * time.Second

// session is the server's end of a test.
type session struct {
	endpoint
	req    Request
	size   int
	inline int

	pinger pinger // of all but WriteLat: the answers
	recv   [1]verbs.RecvWR
	writer writer // of WriteLat

	stop     atomic.Bool
	progress atomic.Uint64
	loops    sync.WaitGroup
	once     sync.Once
	failed   chan struct{} // closed when err is there
	err      error
}

func newSession(req Request) *session {
	return &session{req: req, size: int(req.Size), failed: make(chan struct{})}
}

// needs says what the test needs on this end.
func (t *session) needs(attr verbs.DeviceAttr) *needs {
	n := &needs{op: t.req.Op, size: t.size, sends: pingDepth, recvs: pingRecvs, poll: t.req.Poll && t.req.Op.polls(), handle: t.handle}
	n.access, _ = t.req.Op.access()
	if t.req.Op.Latency() {
		t.inline = inlineFor(attr, t.size)
		n.inline = t.inline
	}
	return n
}

// accept gets ready to answer, and says so to the client.
func (t *session) accept(ctx context.Context) error {
	reply := Reply{Size: t.req.Size}
	switch t.req.Op {
	case WriteLat:
		t.writer.init(&t.endpoint, t.size, t.inline, t.req.RKey, t.req.Addr)
		reply.RKey, reply.Addr = t.mr.RKey(), t.mr.Addr()+uint64(recvOffset(t.size))
	case SendLat:
		t.pinger.init(t.qp, pingWR(&t.endpoint, SendLat, t.size, t.inline, 0, 0))
		t.recv[0] = recvWR(&t.endpoint, t.size)
	default: // the end of the test is an empty message, and so is the answer
		t.pinger.init(t.qp, verbs.SendWR{Opcode: verbs.WRSend})
		t.recv[0].ID = idRecv
		reply.RKey, reply.Addr = t.mr.RKey(), t.mr.Addr()
	}
	if t.req.Op != WriteLat {
		if err := t.postRecv(t.recv[:], pingRecvs); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	param := verbs.ConnParam{PrivateData: reply.Append(nil)}
	if t.req.Op == ReadBW {
		param.ResponderResources = t.cm.Device().Attr().MaxQPRdAtom
	}
	if _, err := t.cm.Accept(ctx, param); err != nil {
		return fmt.Errorf("accept: %w", err)
	}
	if t.req.Op == WriteLat {
		t.loops.Go(func() { t.fail(t.answerWrites()) })
	}
	return nil
}

// watch waits for the end of the test, and returns why it ended.
func (t *session) watch(ctx context.Context) error {
	limit := time.NewTimer(time.Duration(t.req.Seconds)*time.Second + overtime)
	defer limit.Stop()
	ticker := time.NewTicker(stallTime / 2)
	defer ticker.Stop()
	var watch stallWatch
	for {
		select {
		case <-t.cm.Disconnected():
			return t.cm.Err()
		case <-t.failed:
			return t.err
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			return errors.New("the client stayed longer than it had said")
		case <-ticker.C:
			// A bandwidth test makes progress that is not seen here.
			if t.req.Op.Latency() && watch.stalled(t.progress.Load()) {
				return errStalled
			}
		}
	}
}

// fail ends the test. The first call with an error counts.
func (t *session) fail(err error) {
	if err == nil {
		return
	}
	t.once.Do(func() {
		t.err = err
		close(t.failed)
	})
}

func (t *session) handle(batch []verbs.WC) {
	for i := range batch {
		if err := t.complete(&batch[i]); err != nil {
			t.fail(err)
			return
		}
	}
}

func (t *session) complete(wc *verbs.WC) error {
	switch {
	case t.req.Op == WriteLat:
		return t.writer.complete(wc)
	case wc.Status != verbs.WCSuccess:
		return wcError(wc, t.req.Op)
	case wc.ID != idRecv:
		return t.pinger.completed()
	}
	if t.req.Op == SendLat {
		if err := checkLength(wc, t.size); err != nil {
			return err
		}
	}
	t.progress.Add(1)
	if err := t.qp.PostRecv(t.recv[:]); err != nil {
		return err
	}
	return t.pinger.send()
}

// answerWrites answers each RDMA WRITE with one.
func (t *session) answerWrites() error {
	for n := 1; t.writer.await(n, &t.stop); n++ {
		if err := t.writer.write(n); err != nil {
			return err
		}
		t.progress.Add(1)
	}
	return nil
}
