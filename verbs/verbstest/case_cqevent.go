package verbstest

import (
	"context"
	"errors"
	"testing"
	"time"

	"rbd/verbs"
)

var cqEventCases = []Case{
	{"CQEventWakes", testCQEventWakes},
	{"CQEventOnce", testCQEventOnce},
	{"CQEventOnlyNew", testCQEventOnlyNew},
	{"CQEventUnarmed", testCQEventUnarmed},
	{"CQWaitContext", testCQWaitContext},
	{"CQWaitDestroy", testCQWaitDestroy},
}

// arrive lets one empty message arrive, whose receive has the ID.
func (p *Pair) arrive(id uint64) {
	p.e.T.Helper()
	p.Server.PostEmptyRecvs(id, 1)
	p.Client.Post(verbs.SendWR{})
	p.Write(nil, 0, 0) // when this has come through, so has the message
}

func arm(e *Env, cq verbs.CQ) {
	e.T.Helper()
	if err := cq.ReqNotify(); err != nil {
		e.T.Fatalf("arm the CQ: %v", err)
	}
}

func wantEvent(e *Env, cq verbs.CQ) {
	e.T.Helper()
	if err := cq.Wait(e.Context()); err != nil {
		e.T.Fatalf("wait for the event: %v", err)
	}
}

func wantNoEvent(e *Env, cq verbs.CQ) {
	e.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), calm)
	defer cancel()
	if err := cq.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		e.T.Fatalf("wait when no event is due: %v, want %v", err, context.DeadlineExceeded)
	}
}

// Protects sleepers: a completion after arming ends a Wait, one that has begun
// and one that begins later.
func testCQEventWakes(t *testing.T, e *Env) {
	p := e.Pair(nil)
	cq := p.Server.Recv.CQ
	arm(e, cq)
	woken := e.Go(func() error { return cq.Wait(e.Context()) })
	time.Sleep(calm)
	p.arrive(1)
	if err := woken(); err != nil {
		t.Fatalf("waiting before the completion: %v", err)
	}
	p.Server.Recv.OK(1, verbs.WCRecv)
	arm(e, cq)
	p.arrive(2)
	wantEvent(e, cq)
	p.Server.Recv.OK(2, verbs.WCRecv)
}

// Protects from spurious wake-ups: one arming, one event, however many
// completions come.
func testCQEventOnce(t *testing.T, e *Env) {
	p := e.Pair(nil)
	cq := p.Server.Recv.CQ
	arm(e, cq)
	arm(e, cq)
	for id := range uint64(3) {
		p.arrive(id)
	}
	wantEvent(e, cq)
	wantNoEvent(e, cq)
	for id := range uint64(3) {
		p.Server.Recv.OK(id, verbs.WCRecv)
	}
}

// Protects the rule to poll after arming: what is there already makes no event.
func testCQEventOnlyNew(t *testing.T, e *Env) {
	p := e.Pair(nil)
	cq := p.Server.Recv.CQ
	p.arrive(1)
	arm(e, cq)
	wantNoEvent(e, cq)
	p.arrive(2)
	wantEvent(e, cq)
	p.Server.Recv.OK(1, verbs.WCRecv)
	p.Server.Recv.OK(2, verbs.WCRecv)
}

// Protects pollers from the cost of events that nobody asked for.
func testCQEventUnarmed(t *testing.T, e *Env) {
	p := e.Pair(nil)
	p.arrive(1)
	wantNoEvent(e, p.Server.Recv.CQ)
	p.Server.Recv.OK(1, verbs.WCRecv)
}

// Protects shutdown: Wait ends with its context.
func testCQWaitContext(t *testing.T, e *Env) {
	q := e.Queue("CQ", Waited, 16, nil)
	arm(e, q.CQ)
	ctx, cancel := context.WithCancel(context.Background())
	ended := e.Go(func() error { return q.CQ.Wait(ctx) })
	time.Sleep(calm)
	cancel()
	e.WantErr("cancelled while waiting", ended(), context.Canceled)
	e.WantErr("cancelled before waiting", q.CQ.Wait(ctx), context.Canceled)
}

// Protects shutdown: Wait ends with its CQ.
func testCQWaitDestroy(t *testing.T, e *Env) {
	q := e.Queue("CQ", Waited, 16, nil)
	arm(e, q.CQ)
	ended := e.Go(func() error { return q.CQ.Wait(context.Background()) })
	time.Sleep(calm)
	if err := q.CQ.Destroy(); err != nil {
		t.Fatal(err)
	}
	e.WantErr("destroyed while waiting", ended(), verbs.ErrClosed)
}
