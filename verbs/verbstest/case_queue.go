package verbstest

import (
	"errors"
	"testing"

	"rbd/verbs"
)

var queueCases = []Case{
	{"PostNothing", testPostNothing},
	{"PostInvalid", testPostInvalid},
	{"PostBadInList", testPostBadInList},
	{"SendQueueFull", testSendQueueFull},
	{"RecvQueueFull", testRecvQueueFull},
	{"ManyOutstanding", testManyOutstanding},
	{"FullDuplex", testFullDuplex},
}

// Protects from work that was never asked for.
func testPostNothing(t *testing.T, e *Env) {
	p := e.Pair(nil)
	p.Client.Post()
	p.Client.PostRecv()
	p.Quiet()
}

// Protects from requests that mean nothing; the QP lives on.
func testPostInvalid(t *testing.T, e *Env) {
	p := e.Pair(nil)
	e.WantPostErr("an unknown opcode", p.Client.QP.PostSend([]verbs.SendWR{{Opcode: 99}}), 0, verbs.ErrInvalid)
	p.RoundTrip()
}

// Protects the account of what is queued: the requests before a refused one are,
// those behind it are not.
func testPostBadInList(t *testing.T, e *Env) {
	p := e.Pair(nil)
	too := make([]verbs.SGE, e.Device.Attr().MaxSGE+1)
	err := p.Server.QP.PostRecv([]verbs.RecvWR{{ID: 1}, {ID: 2}, {ID: 3, SGEs: too}, {ID: 4}})
	e.WantPostErr("receives, the third invalid", err, 2, verbs.ErrInvalid)
	err = p.Client.QP.PostSend([]verbs.SendWR{
		{ID: 5, Flags: verbs.SendSignaled}, {ID: 6, Flags: verbs.SendSignaled, SGEs: too}, {ID: 7, Flags: verbs.SendSignaled}})
	e.WantPostErr("sends, the second invalid", err, 1, verbs.ErrInvalid)
	p.Client.Send.OK(5, verbs.WCSend)
	p.Server.Recv.OK(1, verbs.WCRecv)
	p.Client.Post(verbs.SendWR{ID: 8, Flags: verbs.SendSignaled})
	p.Client.Send.OK(8, verbs.WCSend)
	p.Server.Recv.OK(2, verbs.WCRecv)
	p.Quiet()
}

// fillQueue posts until the queue is full, and returns how many it took. A
// provider may have rounded the size up, but not without bound.
func fillQueue(e *Env, size int, post func(id uint64) error) (n int) {
	e.T.Helper()
	for {
		err := post(uint64(n))
		if err != nil {
			e.WantPostErr("post to a full queue", err, 0, verbs.ErrNoMemory)
			break
		}
		if n++; n > 4*size {
			e.T.Fatalf("a queue of %d requests took %d", size, n)
		}
	}
	if n < size {
		e.T.Fatalf("a queue of %d requests took only %d", size, n)
	}
	return n
}

// Protects memory and the poster: a full send queue says so at once, keeps what
// it has, and takes more when it has drained.
func testSendQueueFull(t *testing.T, e *Env) {
	const size = 32
	p := e.Pair(func(c, s *SideOpts) { c.Cap.MaxSendWR, s.Cap.MaxRecvWR = size, 4*size })
	if err := p.Client.QP.Modify(verbs.QPStateSQD); err != nil {
		t.Fatal(err)
	}
	n := fillQueue(e, size, func(id uint64) error {
		return p.Client.QP.PostSend([]verbs.SendWR{{ID: id, Flags: verbs.SendSignaled}})
	})
	var pe *verbs.PostError
	err := p.Client.QP.PostSend(make([]verbs.SendWR, 3))
	if !errors.As(err, &pe) || pe.BadWR != 0 {
		t.Errorf("post a list to a full queue: %v", err)
	}
	p.Server.PostEmptyRecvs(0, n)
	if err := p.Client.QP.Modify(verbs.QPStateRTS); err != nil {
		t.Fatal(err)
	}
	for id := range uint64(n) {
		p.Client.Send.OK(id, verbs.WCSend)
		p.Server.Recv.OK(id, verbs.WCRecv)
	}
	p.RoundTrip()
}

// Protects the same of receives.
func testRecvQueueFull(t *testing.T, e *Env) {
	const size = 32
	p := e.Pair(func(_, s *SideOpts) { s.Cap.MaxRecvWR = size })
	n := fillQueue(e, size, func(id uint64) error { return p.Server.QP.PostRecv([]verbs.RecvWR{{ID: id}}) })
	for id := range uint64(n) {
		p.Client.Post(verbs.SendWR{ID: id, Flags: verbs.SendSignaled})
		p.Client.Send.OK(id, verbs.WCSend)
		p.Server.Recv.OK(id, verbs.WCRecv)
	}
	p.RoundTrip()
}

// Protects depth: as many requests as the device's longest queue, all at once.
func testManyOutstanding(t *testing.T, e *Env) {
	a := e.Device.Attr()
	n := min(1024, a.MaxQPWR, a.MaxCQE)
	p := e.PairOf(func(o *SideOpts) { o.Cap.MaxSendWR, o.Cap.MaxRecvWR, o.CQDepth = n, n, n })
	c, s := p.Client.Buffer(n*16, 1), p.Server.Region(n*16, AllAccess)
	recvs, sends := make([]verbs.RecvWR, n), make([]verbs.SendWR, n)
	for i := range n {
		recvs[i] = verbs.RecvWR{ID: uint64(i), SGEs: []verbs.SGE{s.SGE(16*i, 16)}}
		sends[i] = verbs.SendWR{ID: uint64(i), Flags: verbs.SendSignaled, SGEs: []verbs.SGE{c.SGE(16*i, 16)}}
	}
	p.Server.PostRecv(recvs...)
	p.Client.Post(sends...)
	for i := range uint64(n) {
		p.Client.Send.OK(i, verbs.WCSend)
		p.Server.Recv.OK(i, verbs.WCRecv)
	}
	WantBytes(t, "messages", s.Mem, c.Mem)
}

// Protects from the deadlock of two sides that only send: both send, write and
// read far more than fits the way between them.
func testFullDuplex(t *testing.T, e *Env) {
	const n, each = 1 << 20, 10
	p := e.Pair(nil)
	sides := [2]*Side{p.Client, p.Server}
	var own, inbox [2]*Region
	for i, s := range sides {
		own[i], inbox[i] = s.Buffer(n, uint64(i)), s.Region(n, AllAccess)
		for id := range uint64(each) {
			s.PostRecv(verbs.RecvWR{ID: id, SGEs: inbox[i].All()})
		}
	}
	for id := range uint64(each) {
		for i, s := range sides {
			peer := own[1-i]
			to := s.Region(n, AllAccess)
			s.Post(verbs.SendWR{ID: 3 * id, Flags: verbs.SendSignaled, SGEs: own[i].All()},
				verbs.SendWR{ID: 3*id + 1, Opcode: verbs.WRRDMARead, Flags: verbs.SendSignaled, SGEs: to.All(), RemoteAddr: peer.Addr(0), RKey: peer.MR.RKey()},
				verbs.SendWR{ID: 3*id + 2, Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, SGEs: own[i].All(), RemoteAddr: inbox[1-i].Addr(0), RKey: inbox[1-i].MR.RKey()})
		}
	}
	for id := range uint64(each) {
		for _, s := range sides {
			s.Send.OK(3*id, verbs.WCSend)
			s.Send.OK(3*id+1, verbs.WCRDMARead)
			s.Send.OK(3*id+2, verbs.WCRDMAWrite)
			s.Recv.OK(id, verbs.WCRecv)
		}
	}
	p.Write(nil, 0, 0)
	p.Flip().Write(nil, 0, 0)
	for i, s := range sides {
		WantBytes(t, s.name+"'s inbox", inbox[i].Mem, own[1-i].Mem)
		for _, r := range s.regions[2:] {
			WantBytes(t, s.name+"'s READs", r.Mem, own[1-i].Mem)
		}
	}
}
