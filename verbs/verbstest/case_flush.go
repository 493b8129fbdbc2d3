package verbstest

import (
	"testing"

	"rbd/verbs"
)

var flushCases = []Case{
	{"FlushOnModify", testFlushOnModify},
	{"FlushOnDisconnect", testFlushOnDisconnect},
	{"FlushOnPeerDisconnect", testFlushOnPeerDisconnect},
	{"FlushAfterError", testFlushAfterError},
	{"FlushPostsInERR", testFlushPostsInERR},
	{"FlushUnconnected", testFlushUnconnected},
	{"FlushExactlyOnce", testFlushExactlyOnce},
}

const queued = 12 // requests on each queue that wait to be flushed

// held makes a pair whose client has requests waiting on both queues: receives
// from ID 100, sends from ID 200, not one of them signaled.
func held(e *Env, m CQMode) *Pair {
	e.T.Helper()
	p := e.PairOf(func(o *SideOpts) { o.Mode = m })
	p.Client.PostEmptyRecvs(100, queued)
	if err := p.Client.QP.Modify(verbs.QPStateSQD); err != nil {
		e.T.Fatal(err)
	}
	for i := range uint64(queued) {
		p.Client.Post(verbs.SendWR{ID: 200 + i, Opcode: verbs.WROpcode(i % 4)})
	}
	return p
}

// wantFlushed checks that all that held has posted is flushed.
func wantFlushed(p *Pair) {
	p.e.T.Helper()
	p.Client.Send.Flushed(200, queued)
	p.Client.Recv.Flushed(100, queued)
	p.Quiet()
}

// Protects the rule of every request, one completion, when the program ends the
// QP: on both queues, in order, unsignaled requests too.
func testFlushOnModify(t *testing.T, e *Env) {
	for _, m := range CQModes {
		p := held(e, m)
		if err := p.Client.QP.Modify(verbs.QPStateERR); err != nil {
			t.Fatal(err)
		}
		wantFlushed(p)
		p.Ended()
	}
}

// Protects the same when the program disconnects.
func testFlushOnDisconnect(t *testing.T, e *Env) {
	p := held(e, Waited)
	if err := p.Client.ID.Disconnect(); err != nil {
		t.Fatal(err)
	}
	wantFlushed(p)
	p.Ended()
}

// Protects the same when the peer disconnects.
func testFlushOnPeerDisconnect(t *testing.T, e *Env) {
	p := held(e, Waited)
	if err := p.Server.ID.Disconnect(); err != nil {
		t.Fatal(err)
	}
	wantFlushed(p)
	p.Ended()
}

// Protects the cause of an error from being lost in the flush: the request at
// fault has its own status, those before it are done, those behind it flushed.
func testFlushAfterError(t *testing.T, e *Env) {
	p := e.Pair(nil)
	p.Server.PostEmptyRecvs(1, 2)
	p.Client.PostEmptyRecvs(50, 3)
	mem := p.Client.Buffer(64, 1)
	bad := mem.SGE(0, 65)
	if err := p.Client.QP.Modify(verbs.QPStateSQD); err != nil {
		t.Fatal(err)
	}
	p.Client.Post(
		verbs.SendWR{ID: 1, Flags: verbs.SendSignaled},
		verbs.SendWR{ID: 2},
		verbs.SendWR{ID: 3, SGEs: []verbs.SGE{bad}},
		verbs.SendWR{ID: 4, Flags: verbs.SendSignaled},
		verbs.SendWR{ID: 5})
	if err := p.Client.QP.Modify(verbs.QPStateRTS); err != nil {
		t.Fatal(err)
	}
	wc := p.Client.Send.Fails(1, append(e.executed(), verbs.WCSuccess)...)
	if wc.Status != verbs.WCSuccess {
		p.Client.Send.Flushed(2, 1)
	}
	p.Client.Send.Fails(3, e.localFault()...)
	p.Client.Send.Flushed(4, 2)
	p.Client.Recv.Flushed(50, 3)
	p.Ended()
	e.Quiet(p.Client.Send, p.Client.Recv)
}

// Protects posters that have not learned of the end yet: in ERR work is taken,
// and flushed.
func testFlushPostsInERR(t *testing.T, e *Env) {
	for _, m := range CQModes {
		p := e.PairOf(func(o *SideOpts) { o.Mode = m })
		if err := p.Client.QP.Modify(verbs.QPStateERR); err != nil {
			t.Fatal(err)
		}
		p.Ended()
		for range 3 {
			for i := range uint64(queued) {
				p.Client.Post(verbs.SendWR{ID: i})
			}
			p.Client.PostEmptyRecvs(30, queued)
			p.Client.Send.Flushed(0, queued)
			p.Client.Recv.Flushed(30, queued)
		}
		p.Quiet()
	}
}

// Protects receives that were posted before a connection that never came.
func testFlushUnconnected(t *testing.T, e *Env) {
	s := e.Active(e.Listen().Addr(), nil)
	s.PostEmptyRecvs(1, 5)
	if err := s.QP.Modify(verbs.QPStateERR); err != nil {
		t.Fatal(err)
	}
	s.Recv.Flushed(1, 5)
	e.Quiet(s.Send, s.Recv)
}

// Protects the accounts of programs under load: when a connection ends amid
// traffic each request completes once, in order, with success up to some point
// and flushed after it.
func testFlushExactlyOnce(t *testing.T, e *Env) {
	const n = 60
	for round := range 10 {
		p := e.Pair(nil)
		mem := p.Server.Buffer(32<<10, 1)
		from := p.Client.Buffer(32<<10, 2)
		p.Server.PostEmptyRecvs(0, n)
		for i := range uint64(n) {
			wr := verbs.SendWR{ID: i, Flags: verbs.SendSignaled}
			if i%3 > 0 {
				wr.Opcode, wr.SGEs, wr.RemoteAddr, wr.RKey = verbs.WRRDMAWrite, from.All(), mem.Addr(0), mem.MR.RKey()
			}
			if i%3 > 1 {
				wr.Opcode = verbs.WRRDMARead
			}
			p.Client.Post(wr)
			if i == uint64(round)*n/10 {
				if err := p.Flip().Client.ID.Disconnect(); err != nil {
					t.Fatal(err)
				}
			}
		}
		for q, name := range map[*Queue]string{p.Client.Send: "send", p.Server.Recv: "receive"} {
			flushed := false
			for i := range uint64(n) {
				wc := q.Next()
				if wc.ID != i {
					t.Fatalf("%s completion %d is of request %d", name, i, wc.ID)
				}
				if flushed && wc.Status == verbs.WCSuccess {
					t.Fatalf("%s request %d succeeded after others were flushed", name, i)
				}
				flushed = flushed || wc.Status != verbs.WCSuccess
			}
		}
		p.Ended()
		p.Quiet()
	}
}
