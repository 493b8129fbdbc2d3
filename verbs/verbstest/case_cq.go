package verbstest

import (
	"testing"

	"rbd/verbs"
)

var cqCases = []Case{
	{"CQDepth", testCQDepth},
	{"CQPollEmpty", testCQPollEmpty},
	{"CQPollOrder", testCQPollOrder},
	{"CQModes", testCQModes},
	{"CQShared", testCQShared},
	{"CQBusy", testCQBusy},
	{"CQKeepsCompletions", testCQKeepsCompletions},
	{"CQDestroyed", testCQDestroyed},
	{"CQOverrun", testCQOverrun},
}

// Protects from queues of senseless size.
func testCQDepth(t *testing.T, e *Env) {
	limit := e.Device.Attr().MaxCQE
	for _, depth := range []int{-1, 0, limit + 1} {
		_, err := e.Device.CreateCQ(verbs.CQAttr{Depth: depth})
		e.WantErr("create a CQ of a depth out of range", err, verbs.ErrInvalid)
	}
	for _, depth := range []int{1, limit} {
		e.Queue("CQ", Polled, depth, nil)
	}
}

// Protects pollers: Poll never blocks.
func testCQPollEmpty(t *testing.T, e *Env) {
	q := e.Queue("CQ", Polled, 16, nil)
	e.Within("poll an empty CQ", func() {
		var wcs [4]verbs.WC
		if n := q.CQ.Poll(wcs[:]); n != 0 {
			t.Errorf("an empty CQ has %d completions", n)
		}
		if n := q.CQ.Poll(nil); n != 0 {
			t.Errorf("%d completions fit into nothing", n)
		}
	})
}

// Protects the order of completions, whatever number of them is taken at a time.
func testCQPollOrder(t *testing.T, e *Env) {
	p := e.Pair(nil)
	for round := range 8 {
		const n = 60
		p.Server.PostEmptyRecvs(0, n)
		for i := range uint64(n) {
			p.Client.Post(verbs.SendWR{ID: i, Flags: verbs.SendSignaled})
		}
		for _, cq := range []verbs.CQ{p.Client.Send.CQ, p.Server.Recv.CQ} {
			wcs := make([]verbs.WC, round*3+1)
			var next uint64
			e.Eventually("all completions have come", func() bool {
				got := cq.Poll(wcs)
				for _, wc := range wcs[:got] {
					if wc.ID != next || wc.Status != verbs.WCSuccess {
						t.Fatalf("completion %d: request %d, %v", next, wc.ID, wc.Status)
					}
					next++
				}
				return next == n
			})
		}
	}
}

// Protects the three ways to use a CQ: all of the work requests complete in each.
func testCQModes(t *testing.T, e *Env) {
	for _, m := range CQModes {
		p := e.PairOf(func(o *SideOpts) { o.Mode = m })
		p.RoundTrip()
		p.Flip().RoundTrip()
	}
}

// Protects servers that serve many connections from one CQ: QPNum tells whose a
// completion is.
func testCQShared(t *testing.T, e *Env) {
	shared := e.Queue("shared CQ", Waited, min(256, e.Device.Attr().MaxCQE), nil)
	var pairs []*Pair
	for range 4 {
		p := e.Pair(func(c, s *SideOpts) { s.SendQueue, s.RecvQueue = shared, shared })
		p.Server.PostEmptyRecvs(uint64(len(pairs)), 1)
		pairs = append(pairs, p)
	}
	for i, p := range pairs {
		p.Client.Post(verbs.SendWR{})
		wc := shared.OK(uint64(i), verbs.WCRecv)
		if wc.QPNum != p.Server.QP.Num() {
			t.Errorf("completion of QP %d, want %d", wc.QPNum, p.Server.QP.Num())
		}
	}
	if pairs[0].Server.QP.Num() == pairs[1].Server.QP.Num() {
		t.Error("two QPs with one number")
	}
}

// Protects QPs from losing a CQ.
func testCQBusy(t *testing.T, e *Env) {
	s := e.Active(e.Listen().Addr(), nil)
	e.WantErr("destroy the send CQ of a QP", s.Send.CQ.Destroy(), verbs.ErrBusy)
	e.WantErr("destroy the receive CQ of a QP", s.Recv.CQ.Destroy(), verbs.ErrBusy)
	e.Destroy("QP", s.QP.Destroy)
	if err := s.Send.CQ.Destroy(); err != nil {
		t.Errorf("destroy the send CQ when the QP is gone: %v", err)
	}
	if err := s.Recv.CQ.Destroy(); err != nil {
		t.Errorf("destroy the receive CQ when the QP is gone: %v", err)
	}
}

// Protects programs that tear down first and reap later: completions outlive
// their QP.
func testCQKeepsCompletions(t *testing.T, e *Env) {
	p := e.Pair(nil)
	p.Server.PostEmptyRecvs(1, 3)
	p.Client.Post(verbs.SendWR{}, verbs.SendWR{}, verbs.SendWR{})
	p.Write(nil, 0, 0) // when this has come through, so have the messages
	e.Destroy("QP", p.Server.QP.Destroy)
	for id := range uint64(3) {
		p.Server.Recv.OK(1+id, verbs.WCRecv)
	}
	p.Quiet()
}

// Protects those who come too late to a CQ.
func testCQDestroyed(t *testing.T, e *Env) {
	cq := e.Queue("CQ", Polled, 16, nil).CQ
	if err := cq.Destroy(); err != nil {
		t.Fatal(err)
	}
	e.WantErr("destroy it again", cq.Destroy(), verbs.ErrClosed)
	e.WantErr("arm it", cq.ReqNotify(), verbs.ErrClosed)
	e.WantErr("wait for it", cq.Wait(e.Context()), verbs.ErrClosed)
	if n := cq.Poll(make([]verbs.WC, 1)); n != 0 {
		t.Errorf("%d completions in a destroyed CQ", n)
	}
	id := e.Resolve(e.Listen().Addr())
	_, err := id.CreateQP(e.PD(), verbs.QPInitAttr{SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}})
	e.WantErr("create a QP with it", err, verbs.ErrClosed, verbs.ErrInvalid)
}

// Protects memory and the order of completions when a program does not poll: the
// QP whose completion finds no room ends, others don't.
func testCQOverrun(t *testing.T, e *Env) {
	const depth = 4
	other := e.Pair(nil)
	p := e.Pair(func(c, _ *SideOpts) {
		c.SendQueue = e.Queue("small CQ", Polled, depth, nil)
	})
	mem := p.Server.Buffer(64, 1)
	wr := verbs.SendWR{Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, RemoteAddr: mem.Addr(0), RKey: mem.MR.RKey()}
	for wr.ID = 0; wr.ID < 60; wr.ID++ {
		p.Client.Post(wr)
	}
	p.Ended()
	n := 0
	for wc, ok := p.Client.Send.TryNext(); ok; wc, ok = p.Client.Send.TryNext() {
		if wc.ID != uint64(n) || wc.Status != verbs.WCSuccess {
			t.Errorf("completion %d: request %d, %v", n, wc.ID, wc.Status)
		}
		n++
	}
	if n < depth || n > 2*depth {
		t.Errorf("%d completions in a CQ of depth %d", n, depth)
	}
	other.RoundTrip()
}
