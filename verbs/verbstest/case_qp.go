package verbstest

import (
	"testing"

	"rbd/verbs"
)

var qpCases = []Case{
	{"QPCreateInvalid", testQPCreateInvalid},
	{"QPCreateTwice", testQPCreateTwice},
	{"QPLimits", testQPLimits},
	{"QPNumbers", testQPNumbers},
	{"QPDestroyed", testQPDestroyed},
	{"QPDestroyCutsConnection", testQPDestroyCutsConnection},
	{"QPDestroyDoesNotFlush", testQPDestroyDoesNotFlush},
}

// Protects from QPs that the device can't have, and from objects of elsewhere.
func testQPCreateInvalid(t *testing.T, e *Env) {
	a := e.Device.Attr()
	pd, cq := e.PD(), e.Queue("CQ", Polled, 16, nil).CQ
	addr := e.Listen().Addr()
	for _, tt := range []struct {
		name   string
		pd     verbs.PD
		change func(*verbs.QPInitAttr)
	}{
		{"no PD", nil, func(*verbs.QPInitAttr) {}},
		{"a foreign PD", foreignPD{}, func(*verbs.QPInitAttr) {}},
		{"no send CQ", pd, func(i *verbs.QPInitAttr) { i.SendCQ = nil }},
		{"no receive CQ", pd, func(i *verbs.QPInitAttr) { i.RecvCQ = nil }},
		{"a foreign send CQ", pd, func(i *verbs.QPInitAttr) { i.SendCQ = foreignCQ{} }},
		{"a foreign receive CQ", pd, func(i *verbs.QPInitAttr) { i.RecvCQ = foreignCQ{} }},
		{"a negative send queue", pd, func(i *verbs.QPInitAttr) { i.Cap.MaxSendWR = -1 }},
		{"a negative receive queue", pd, func(i *verbs.QPInitAttr) { i.Cap.MaxRecvWR = -1 }},
		{"a too long send queue", pd, func(i *verbs.QPInitAttr) { i.Cap.MaxSendWR = a.MaxQPWR + 1 }},
		{"a too long receive queue", pd, func(i *verbs.QPInitAttr) { i.Cap.MaxRecvWR = a.MaxQPWR + 1 }},
		{"negative send SGEs", pd, func(i *verbs.QPInitAttr) { i.Cap.MaxSendSGE = -1 }},
		{"too many send SGEs", pd, func(i *verbs.QPInitAttr) { i.Cap.MaxSendSGE = a.MaxSGE + 1 }},
		{"too many receive SGEs", pd, func(i *verbs.QPInitAttr) { i.Cap.MaxRecvSGE = a.MaxSGE + 1 }},
		{"too much inline data", pd, func(i *verbs.QPInitAttr) { i.Cap.MaxInlineData = a.MaxInline + 1 }},
		{"negative inline data", pd, func(i *verbs.QPInitAttr) { i.Cap.MaxInlineData = -1 }},
	} {
		attr := verbs.QPInitAttr{SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4}}
		tt.change(&attr)
		_, err := e.Resolve(addr).CreateQP(tt.pd, attr)
		e.WantErr("create a QP with "+tt.name, err, verbs.ErrInvalid)
	}
}

// Protects the first QP of a CMID from a second one.
func testQPCreateTwice(t *testing.T, e *Env) {
	s := e.Active(e.Listen().Addr(), nil)
	attr := verbs.QPInitAttr{SendCQ: s.Send.CQ, RecvCQ: s.Recv.CQ, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4}}
	_, err := s.ID.CreateQP(s.PD, attr)
	e.WantErr("create a second QP", err, verbs.ErrState, verbs.ErrInvalid, verbs.ErrBusy)
}

// Protects callers that ask for all that the device has: it gives it.
func testQPLimits(t *testing.T, e *Env) {
	a := e.Device.Attr()
	p := e.PairOf(func(o *SideOpts) {
		o.Cap = verbs.QPCap{
			MaxSendWR: a.MaxQPWR, MaxRecvWR: a.MaxQPWR, MaxSendSGE: a.MaxSGE, MaxRecvSGE: a.MaxSGE, MaxInlineData: a.MaxInline,
		}
		o.Param = verbs.ConnParam{ResponderResources: a.MaxQPRdAtom, InitiatorDepth: a.MaxQPInitRdAtom}
	})
	p.RoundTrip()
}

// Protects servers that look connections up by QP number.
func testQPNumbers(t *testing.T, e *Env) {
	seen := map[uint32]bool{}
	for range 8 {
		p := e.Pair(nil)
		for _, s := range []*Side{p.Client, p.Server} {
			if seen[s.QP.Num()] {
				t.Errorf("QP number %d is there twice", s.QP.Num())
			}
			seen[s.QP.Num()] = true
			s.PostEmptyRecvs(1, 1)
		}
		p.Client.Post(verbs.SendWR{Flags: verbs.SendSignaled})
		for _, got := range []struct {
			num, want uint32
		}{
			{p.Client.Send.Next().QPNum, p.Client.QP.Num()},
			{p.Server.Recv.Next().QPNum, p.Server.QP.Num()},
		} {
			if got.num != got.want {
				t.Errorf("completion of QP %d, want %d", got.num, got.want)
			}
		}
	}
}

// Protects those who come too late to a QP.
func testQPDestroyed(t *testing.T, e *Env) {
	p := e.Pair(nil)
	qp := p.Client.QP
	if err := qp.Destroy(); err != nil {
		t.Fatal(err)
	}
	e.WantErr("destroy it again", qp.Destroy(), verbs.ErrClosed)
	e.WantErr("post a send to it", qp.PostSend([]verbs.SendWR{{}}), verbs.ErrClosed, verbs.ErrState)
	e.WantErr("post a receive to it", qp.PostRecv([]verbs.RecvWR{{}}), verbs.ErrClosed, verbs.ErrState)
	e.WantErr("modify it", qp.Modify(verbs.QPStateERR), verbs.ErrClosed, verbs.ErrState)
	p.Quiet()
}

// Protects the peer of a QP that is destroyed: it learns of it, and its work is
// flushed.
func testQPDestroyCutsConnection(t *testing.T, e *Env) {
	p := e.Pair(nil)
	p.Server.PostEmptyRecvs(1, 5)
	if err := p.Client.QP.Destroy(); err != nil {
		t.Fatal(err)
	}
	p.Server.Ended()
	p.Server.Recv.Flushed(1, 5)
	select {
	case <-p.Client.ID.Disconnected():
	case <-e.Context().Done():
		t.Error("the connection of the destroyed QP has not ended")
	}
}

// Protects memory that is freed after Destroy: nothing is executed, and no
// completion comes, once it has returned.
func testQPDestroyDoesNotFlush(t *testing.T, e *Env) {
	p := e.Pair(nil)
	mem := p.Client.Buffer(64, 1)
	p.Client.PostRecv(verbs.RecvWR{SGEs: mem.All()}, verbs.RecvWR{})
	if err := p.Client.QP.Modify(verbs.QPStateSQD); err != nil {
		t.Fatal(err)
	}
	p.Client.Post(verbs.SendWR{Flags: verbs.SendSignaled, SGEs: mem.All()})
	if err := p.Client.QP.Destroy(); err != nil {
		t.Fatal(err)
	}
	p.Quiet()
}
