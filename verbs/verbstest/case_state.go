package verbstest

import (
	"testing"
	"time"

	"rbd/verbs"
)

var stateCases = []Case{
	{"StateOfConnection", testStateOfConnection},
	{"StateInitPosts", testStateInitPosts},
	{"StateModify", testStateModify},
	{"StateSQDHolds", testStateSQDHolds},
	{"StateSQDServes", testStateSQDServes},
	{"StateSQDCompletesStarted", testStateSQDCompletesStarted},
	{"StateSQDFinishesMessage", testStateSQDFinishesMessage},
}

func wantState(e *Env, what string, s *Side, want verbs.QPState) {
	e.T.Helper()
	if got := s.QP.State(); got != want {
		e.T.Errorf("%s: %s's QP in %v, want %v", what, s.name, got, want)
	}
}

// Protects programs that act by the state: INIT, RTS, ERR follow the connection.
func testStateOfConnection(t *testing.T, e *Env) {
	l := e.Listen()
	c := e.Active(l.Addr(), nil)
	wantState(e, "before connecting", c, verbs.QPStateInit)
	connected := e.Go(func() error { return c.Connect(e.Context()) })
	s := e.Passive(l, nil)
	wantState(e, "before accepting", s, verbs.QPStateInit)
	s.Accept()
	if err := connected(); err != nil {
		t.Fatal(err)
	}
	wantState(e, "connected", c, verbs.QPStateRTS)
	wantState(e, "accepted", s, verbs.QPStateRTS)
	if err := c.ID.Disconnect(); err != nil {
		t.Fatal(err)
	}
	c.Ended()
	s.Ended()
}

// Protects the two ends before they are connected: receives can be posted, and
// are used later; sends can't.
func testStateInitPosts(t *testing.T, e *Env) {
	l := e.Listen()
	c := e.Active(l.Addr(), nil)
	e.WantPostErr("post a send in INIT", c.QP.PostSend([]verbs.SendWR{{Flags: verbs.SendSignaled}}), 0, verbs.ErrState)
	c.PostEmptyRecvs(1, 1)
	connected := e.Go(func() error { return c.Connect(e.Context()) })
	s := e.Passive(l, nil)
	e.WantPostErr("post a send in INIT", s.QP.PostSend([]verbs.SendWR{{Flags: verbs.SendSignaled}}), 0, verbs.ErrState)
	s.PostEmptyRecvs(2, 1)
	s.Accept()
	if err := connected(); err != nil {
		t.Fatal(err)
	}
	c.Post(verbs.SendWR{ID: 3, Flags: verbs.SendSignaled})
	c.Send.OK(3, verbs.WCSend)
	s.Recv.OK(2, verbs.WCRecv)
	s.Post(verbs.SendWR{ID: 4, Flags: verbs.SendSignaled})
	s.Send.OK(4, verbs.WCSend)
	c.Recv.OK(1, verbs.WCRecv)
}

// Protects connection management's transitions from Modify, and the other way.
func testStateModify(t *testing.T, e *Env) {
	const (
		reset, init, rtr, rts = verbs.QPStateReset, verbs.QPStateInit, verbs.QPStateRTR, verbs.QPStateRTS
		sqd, sqe, erroneous   = verbs.QPStateSQD, verbs.QPStateSQE, verbs.QPStateERR
	)
	step := func(s *Side, to verbs.QPState, allowed bool) {
		t.Helper()
		from := s.QP.State()
		err := s.QP.Modify(to)
		switch {
		case allowed && err != nil:
			t.Errorf("modify from %v to %v: %v", from, to, err)
		case allowed:
			wantState(e, "modified", s, to)
		default:
			e.WantErr("modify from "+from.String()+" to "+to.String(), err, verbs.ErrState, verbs.ErrInvalid)
			wantState(e, "not modified", s, from)
		}
	}
	idle := e.Active(e.Listen().Addr(), nil)
	for _, to := range []verbs.QPState{reset, rtr, rts, sqd, sqe, 99} {
		step(idle, to, false)
	}
	step(idle, erroneous, true)
	s := e.Pair(nil).Client
	for _, to := range []verbs.QPState{reset, init, rtr, sqe, 99} {
		step(s, to, false)
	}
	step(s, sqd, true)
	for _, to := range []verbs.QPState{reset, init, rtr, sqe} {
		step(s, to, false)
	}
	step(s, rts, true)
	step(s, sqd, true)
	step(s, erroneous, true)
	for _, to := range []verbs.QPState{reset, init, rtr, rts, sqd, sqe} {
		step(s, to, false)
	}
	step(s, erroneous, true)
	s.Ended()
}

// Protects those who stop a send queue: what is posted in SQD waits, all of it,
// and goes on in RTS.
func testStateSQDHolds(t *testing.T, e *Env) {
	const n = 10
	p := e.Pair(nil)
	p.Server.PostEmptyRecvs(100, n)
	if err := p.Client.QP.Modify(verbs.QPStateSQD); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(n) {
		p.Client.Post(verbs.SendWR{ID: i, Flags: verbs.SendSignaled})
	}
	p.Quiet()
	if err := p.Client.QP.Modify(verbs.QPStateRTS); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(n) {
		p.Client.Send.OK(i, verbs.WCSend)
		p.Server.Recv.OK(100+i, verbs.WCRecv)
	}
}

// Protects the peer of a QP in SQD: the receive side works as in RTS.
func testStateSQDServes(t *testing.T, e *Env) {
	p := e.Pair(nil)
	s, c := p.Server.Buffer(5000, 1), p.Client.Buffer(5000, 2)
	if err := p.Server.QP.Modify(verbs.QPStateSQD); err != nil {
		t.Fatal(err)
	}
	p.Message(c.All(), s.All())
	WantBytes(t, "message to a QP in SQD", s.Mem, c.Mem)
	Fill(s.Mem, 3)
	p.Read(c.All(), s.Addr(0), s.MR.RKey())
	WantBytes(t, "RDMA READ from a QP in SQD", c.Mem, s.Mem)
	Fill(c.Mem, 4)
	p.Write(c.All(), s.Addr(0), s.MR.RKey())
	WantBytes(t, "RDMA WRITE to a QP in SQD", s.Mem, c.Mem)
}

// Protects requests in progress from a change to SQD.
func testStateSQDCompletesStarted(t *testing.T, e *Env) {
	const n = 1 << 20
	p := e.Pair(nil)
	from, to := p.Server.Buffer(n, 1), p.Client.Region(n, AllAccess)
	p.Client.Post(verbs.SendWR{ID: 1, Opcode: verbs.WRRDMARead, Flags: verbs.SendSignaled, SGEs: to.All(),
		RemoteAddr: from.Addr(0), RKey: from.MR.RKey()})
	time.Sleep(calm) // it has certainly started, and may be done
	if err := p.Client.QP.Modify(verbs.QPStateSQD); err != nil {
		t.Fatal(err)
	}
	p.Client.Post(verbs.SendWR{ID: 2, Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, SGEs: to.All(),
		RemoteAddr: from.Addr(0), RKey: from.MR.RKey()})
	p.Client.Send.OK(1, verbs.WCRDMARead)
	WantBytes(t, "RDMA READ", to.Mem, from.Mem)
	p.Quiet()
	if err := p.Client.QP.Modify(verbs.QPStateRTS); err != nil {
		t.Fatal(err)
	}
	p.Client.Send.OK(2, verbs.WCRDMAWrite)
}

// Protects the peer of a QP that enters SQD in the middle of a message: it gets that
// one, what was posted later when the QP is in RTS again, and nothing else.
func testStateSQDFinishesMessage(t *testing.T, e *Env) {
	const n = 16 << 20
	p := e.Pair(nil)
	from, to := p.Client.Buffer(n, 1), p.Server.Region(n, AllAccess)
	p.Server.PostRecv(verbs.RecvWR{ID: 11, SGEs: to.All()}, verbs.RecvWR{ID: 12}, verbs.RecvWR{ID: 13})
	p.Client.Post(verbs.SendWR{ID: 1, Flags: verbs.SendSignaled, SGEs: from.All()})
	if err := p.Client.QP.Modify(verbs.QPStateSQD); err != nil {
		t.Fatal(err)
	}
	p.Client.Post(verbs.SendWR{ID: 2, Flags: verbs.SendSignaled})
	p.Client.Send.OK(1, verbs.WCSend)
	p.Server.Recv.OK(11, verbs.WCRecv)
	WantBytes(t, "message", to.Mem, from.Mem)
	p.Quiet()
	if err := p.Client.QP.Modify(verbs.QPStateRTS); err != nil {
		t.Fatal(err)
	}
	p.Client.Send.OK(2, verbs.WCSend)
	p.Server.Recv.OK(12, verbs.WCRecv)
	p.Quiet()
}
