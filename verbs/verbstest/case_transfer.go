package verbstest

import (
	"testing"

	"rbd/verbs"
)

var transferCases = []Case{
	{"Send", testSend},
	{"SendServerFirst", testSendServerFirst},
	{"SendWithInv", testSendWithInv},
	{"Write", testWrite},
	{"Read", testRead},
	{"ZeroLength", testZeroLength},
	{"Lengths", testLengths},
	{"LengthsLarge", testLengthsLarge},
	{"OneSidedIdle", testOneSidedIdle},
}

// Protects the fields of the completions of a message, in the three CQ modes.
func testSend(t *testing.T, e *Env) {
	for _, m := range CQModes {
		p := e.PairOf(func(o *SideOpts) { o.Mode = m })
		from, to := p.Client.Buffer(100, 1), p.Server.Buffer(200, 2)
		p.Server.PostRecv(verbs.RecvWR{ID: 1<<64 - 1, SGEs: to.All()})
		p.Client.Post(verbs.SendWR{ID: 1 << 63, Opcode: verbs.WRSend, Flags: verbs.SendSignaled | verbs.SendSolicited, SGEs: from.All()})
		got := p.Server.Recv.OK(1<<64-1, verbs.WCRecv)
		if got.ByteLen != 100 || got.Flags != 0 || got.QPNum != p.Server.QP.Num() || got.VendorErr != 0 {
			t.Errorf("%v: receive completion %+v", m, got)
		}
		WantBytes(t, "message", to.Mem[:100], from.Mem)
		WantBytes(t, "memory behind the message", to.Mem[100:], Filled(200, 2)[100:])
		sent := p.Client.Send.OK(1<<63, verbs.WCSend)
		if sent.QPNum != p.Client.QP.Num() || sent.Flags != 0 {
			t.Errorf("%v: send completion %+v", m, sent)
		}
	}
}

// Protects servers that speak first: Accept has returned, so the QP can be used.
func testSendServerFirst(t *testing.T, e *Env) {
	l := e.Listen()
	c := e.Active(l.Addr(), nil)
	c.PostEmptyRecvs(1, 1)
	connected := e.Go(func() error { return c.Connect(e.Context()) })
	s := e.Passive(l, nil)
	s.Accept()
	s.Post(verbs.SendWR{ID: 2, Flags: verbs.SendSignaled})
	if err := connected(); err != nil {
		t.Fatal(err)
	}
	c.Recv.OK(1, verbs.WCRecv)
	s.Send.OK(2, verbs.WCSend)
}

// Protects the saving of a deregistration: the message ends the named region, and
// no other, and the receiver is told which.
func testSendWithInv(t *testing.T, e *Env) {
	e.Need(e.Device.Attr().RemoteInvalidate, "it does not take SEND with invalidate")
	p := e.Pair(nil)
	named, other := p.Server.Buffer(64, 1), p.Server.Buffer(64, 2)
	to := p.Client.Region(64, AllAccess)
	p.Read(to.All(), named.Addr(0), named.MR.RKey())
	p.Server.PostRecv(verbs.RecvWR{ID: 1, SGEs: other.All()})
	p.Client.Post(verbs.SendWR{ID: 2, Opcode: verbs.WRSendWithInv, Flags: verbs.SendSignaled, SGEs: to.All(), InvalidateRKey: named.MR.RKey()})
	wc := p.Server.Recv.OK(1, verbs.WCRecv)
	if wc.Flags != verbs.WCWithInv || wc.InvalidatedRKey != named.MR.RKey() || wc.ByteLen != 64 {
		t.Errorf("receive completion %+v, want WCWithInv of %#x and 64 bytes", wc, named.MR.RKey())
	}
	p.Client.Send.OK(2, verbs.WCSend)
	WantBytes(t, "message", other.Mem, to.Mem)
	p.Read(to.All(), other.Addr(0), other.MR.RKey())
	p.remoteFault(verbs.WRRDMARead, to.All(), named.Addr(0), named.MR.RKey())
	if err := named.MR.Dereg(); err != nil {
		t.Errorf("deregister an invalidated region: %v", err)
	}
}

// Protects the placement of an RDMA WRITE, and that the peer's program gets no
// completion of it.
func testWrite(t *testing.T, e *Env) {
	p := e.Pair(nil)
	p.Server.PostEmptyRecvs(1, 1)
	from, to := p.Client.Buffer(100, 1), p.Server.Buffer(300, 2)
	want := Filled(300, 2)
	copy(want[150:], from.Mem)
	p.Write(from.All(), to.Addr(150), to.MR.RKey())
	WantBytes(t, "written region", to.Mem, want)
	p.Quiet()
}

// Protects the same of an RDMA READ.
func testRead(t *testing.T, e *Env) {
	p := e.Pair(nil)
	p.Server.PostEmptyRecvs(1, 1)
	from, to := p.Server.Buffer(300, 1), p.Client.Buffer(100, 2)
	want := Filled(100, 2)
	copy(want[7:], from.Mem[150:200])
	wc := p.Read([]verbs.SGE{to.SGE(7, 50)}, from.Addr(150), from.MR.RKey())
	if wc.ByteLen != 50 || wc.QPNum != p.Client.QP.Num() {
		t.Errorf("completion %+v of a READ of 50 bytes", wc)
	}
	WantBytes(t, "memory that was read to", to.Mem, want)
	p.Quiet()
}

// Protects requests without data: all kinds work, without SGEs and with empty
// ones, and neither address nor key of the peer is looked at (RFC 5040 section
// 5.2 and IBA 9.3.3 agree).
func testZeroLength(t *testing.T, e *Env) {
	p := e.Pair(nil)
	mem := p.Client.Buffer(64, 1)
	for i, sges := range [][]verbs.SGE{nil, {mem.SGE(3, 0)}, {mem.SGE(0, 0), mem.SGE(64, 0)}} {
		to := p.Server.Buffer(64, 2)
		if wc := p.Message(sges, to.All()); wc.ByteLen != 0 {
			t.Errorf("list %d: an empty message has %d bytes", i, wc.ByteLen)
		}
		WantBytes(t, "receive of an empty message", to.Mem, Filled(64, 2))
		p.Message(sges, nil)
		p.Write(sges, 0, 0)
		p.Write(sges, 1<<64-1, 0xdeadbeef)
		if wc := p.Read(sges, 0, 0); wc.ByteLen != 0 {
			t.Errorf("list %d: an empty READ has %d bytes", i, wc.ByteLen)
		}
	}
	WantBytes(t, "local memory", mem.Mem, Filled(64, 1))
}

// transfer moves n bytes by each of the three operations and compares.
func transfer(p *Pair, n int, message bool) {
	t := p.e.T
	t.Helper()
	c, s := p.Client.Buffer(n, uint64(n)), p.Server.Region(n, AllAccess)
	if message {
		if wc := p.Message(c.All(), s.All()); int(wc.ByteLen) != n {
			t.Errorf("message of %d bytes: byte_len %d", n, wc.ByteLen)
		}
		WantBytes(t, "message", s.Mem, c.Mem)
		fillByte(s.Mem, 0)
	}
	p.Write(c.All(), s.Addr(0), s.MR.RKey())
	WantBytes(t, "RDMA WRITE", s.Mem, c.Mem)
	fillByte(c.Mem, 0)
	if wc := p.Read(c.All(), s.Addr(0), s.MR.RKey()); int(wc.ByteLen) != n {
		t.Errorf("RDMA READ of %d bytes: byte_len %d", n, wc.ByteLen)
	}
	WantBytes(t, "RDMA READ", c.Mem, s.Mem)
}

// Protects segmentation: lengths around what fits a segment, a page, 64 KiB.
func testLengths(t *testing.T, e *Env) {
	p := e.Pair(nil)
	for _, n := range []int{1, 2, 3, 4, 5, 511, 1447, 1448, 1449, 4095, 4096, 4097, 65483, 65535, 65536, 65537, 131071, 1 << 20} {
		transfer(p, n, true)
	}
}

// Protects transfers that are larger than every buffer on the way.
func testLengthsLarge(t *testing.T, e *Env) {
	p := e.Pair(nil)
	transfer(p, 16<<20, false)
	transfer(p, 3<<20+1, true)
}

// Protects what one-sided means: READs and WRITEs of 1 MiB are done while the
// program of the other side does nothing, not even poll. Here it has no
// goroutine, and its completion queues are never touched.
func testOneSidedIdle(t *testing.T, e *Env) {
	p := e.Pair(nil)
	p.Server.PostEmptyRecvs(1, 3)
	for i := range uint64(4) {
		s, c := p.Server.Buffer(1<<20, i), p.Client.Region(1<<20, AllAccess)
		p.Read(c.All(), s.Addr(0), s.MR.RKey())
		WantBytes(t, "RDMA READ", c.Mem, s.Mem)
		Fill(c.Mem, 10+i)
		p.Write(c.All(), s.Addr(0), s.MR.RKey())
		WantBytes(t, "RDMA WRITE", s.Mem, c.Mem)
	}
	p.Quiet()
}
