package verbstest

import (
	"testing"
	"time"

	"rbd/verbs"
)

var lifeCases = []Case{
	{"DestroyUnused", testDestroyUnused},
	{"DestroyWhileConnecting", testDestroyWhileConnecting},
	{"DestroyRequest", testDestroyRequest},
	{"DestroyConnected", testDestroyConnected},
	{"DestroyUnderLoad", testDestroyUnderLoad},
	{"DestroyedCMID", testDestroyedCMID},
	{"DestroyRaces", testDestroyRaces},
}

// Protects the states in which nothing has happened yet.
func testDestroyUnused(t *testing.T, e *Env) {
	l := e.Listen()
	if err := e.Resolve(l.Addr()).Destroy(); err != nil {
		t.Errorf("destroy a resolved CMID: %v", err)
	}
	s := e.Active(l.Addr(), nil)
	s.PostEmptyRecvs(1, 3)
	if err := s.ID.Destroy(); err != nil {
		t.Errorf("destroy a CMID with a QP: %v", err)
	}
	e.Quiet(s.Recv)
}

// Protects programs that give up without the context of Connect at hand.
func testDestroyWhileConnecting(t *testing.T, e *Env) {
	c := e.Active(e.Listen().Addr(), nil)
	connected := e.Go(func() error { return c.Connect(e.Context()) })
	time.Sleep(calm)
	e.Destroy("CMID", c.ID.Destroy)
	if err := connected(); err == nil {
		t.Error("connected with a destroyed CMID")
	}
}

// Protects clients of servers that drop a request without an answer: they learn
// of it.
func testDestroyRequest(t *testing.T, e *Env) {
	l := e.Listen()
	for _, withQP := range []bool{false, true} {
		c := e.Active(l.Addr(), nil)
		connected := e.Go(func() error { return c.Connect(e.Context()) })
		if withQP {
			e.Passive(l, nil).Close()
		} else {
			e.Destroy("CMID", e.GetRequest(l).Destroy)
		}
		wantConnectFailed(e, c, connected())
	}
}

// Protects teardown in one step: Destroy of the CMID takes the QP with it, and
// frees domain and queues for theirs.
func testDestroyConnected(t *testing.T, e *Env) {
	p := e.Pair(nil)
	p.Client.PostEmptyRecvs(1, 3)
	p.Server.PostEmptyRecvs(1, 3)
	if err := p.Client.ID.Destroy(); err != nil {
		t.Fatal(err)
	}
	for what, destroy := range map[string]func() error{
		"send CQ": p.Client.Send.CQ.Destroy, "receive CQ": p.Client.Recv.CQ.Destroy, "PD": p.Client.PD.Dealloc,
	} {
		if err := destroy(); err != nil {
			t.Errorf("destroy the %s when the CMID is gone: %v", what, err)
		}
	}
	p.Server.Ended()
	p.Server.Recv.Flushed(1, 3)
}

// Protects memory that is freed after Destroy, whatever the connection was doing.
func testDestroyUnderLoad(t *testing.T, e *Env) {
	for round := range 12 {
		p := e.Pair(nil)
		for i := range uint64(8) {
			c, s := p.Client.Buffer(512<<10, i), p.Server.Buffer(512<<10, i)
			p.Server.PostRecv(verbs.RecvWR{ID: i, SGEs: s.All()})
			p.Client.Post(
				verbs.SendWR{Opcode: verbs.WRRDMAWrite, SGEs: c.All(), RemoteAddr: s.Addr(0), RKey: s.MR.RKey()},
				verbs.SendWR{SGEs: c.All()},
				verbs.SendWR{Opcode: verbs.WRRDMARead, SGEs: c.All(), RemoteAddr: s.Addr(0), RKey: s.MR.RKey()})
		}
		time.Sleep(time.Duration(round) * 300 * time.Microsecond)
		first, second := p.Client, p.Server
		if round%2 == 1 {
			first, second = second, first
		}
		first.Close() // unmaps its memory
		second.Close()
	}
}

// Protects those who come too late to a CMID.
func testDestroyedCMID(t *testing.T, e *Env) {
	p := e.Pair(nil)
	id := p.Client.ID
	if err := id.Destroy(); err != nil {
		t.Fatal(err)
	}
	e.WantErr("destroy again", id.Destroy(), verbs.ErrClosed)
	_, err := id.Connect(e.Context(), verbs.ConnParam{})
	e.WantErr("connect", err, verbs.ErrClosed, verbs.ErrState)
	_, err = id.Accept(e.Context(), verbs.ConnParam{})
	e.WantErr("accept", err, verbs.ErrClosed, verbs.ErrState)
	_, err = id.CreateQP(p.Client.PD, verbs.QPInitAttr{SendCQ: p.Client.Send.CQ, RecvCQ: p.Client.Recv.CQ, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}})
	e.WantErr("create a QP", err, verbs.ErrClosed, verbs.ErrState)
	if err := id.Disconnect(); err != nil {
		e.WantErr("disconnect", err, verbs.ErrClosed, verbs.ErrState, verbs.ErrDisconnected)
	}
	select {
	case <-id.Disconnected():
	case <-e.Context().Done():
		t.Error("the connection of a destroyed CMID has not ended")
	}
	if id.Err() == nil {
		t.Error("no error of a destroyed CMID")
	}
	if id.LocalAddr() == nil || id.RemoteAddr() == nil || id.Device() == nil {
		t.Error("a destroyed CMID has forgotten its addresses or device")
	}
}

// Protects teardown from several goroutines: all calls return, and no more than
// one ends each object.
func testDestroyRaces(t *testing.T, e *Env) {
	for range 10 {
		p := e.Pair(nil)
		mem := p.Server.Buffer(64<<10, 1)
		var waits []func() error
		for _, s := range []*Side{p.Client, p.Server} {
			waits = append(waits,
				e.Go(func() error {
					for range 20 {
						if err := s.QP.PostSend([]verbs.SendWR{{Opcode: verbs.WRRDMAWrite, RemoteAddr: mem.Addr(0)}}); err != nil {
							break // it is destroyed
						}
					}
					return nil
				}),
				e.Go(func() error { e.Destroy("QP", s.QP.Destroy); return nil }),
				e.Go(func() error { e.Destroy("CMID", s.ID.Destroy); return nil }),
				e.Go(func() error { _ = s.ID.Disconnect(); return nil }))
		}
		waits = append(waits, e.Go(func() error { e.Destroy("MR", mem.MR.Dereg); return nil }))
		for _, wait := range waits {
			if err := wait(); err != nil {
				t.Error(err)
			}
		}
	}
}
