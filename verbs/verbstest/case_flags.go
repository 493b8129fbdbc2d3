package verbstest

import (
	"testing"

	"rbd/verbs"
)

var sendFlagCases = []Case{
	{"Unsignaled", testUnsignaled},
	{"SQSigAll", testSQSigAll},
	{"UnsignaledError", testUnsignaledError},
	{"Inline", testInline},
	{"InlineInvalid", testInlineInvalid},
	{"FenceSend", testFenceSend},
	{"FenceWrite", testFenceWrite},
}

// Protects the cost of completions nobody wants: only signaled requests have
// one, and the others' slots are free when it has been taken.
func testUnsignaled(t *testing.T, e *Env) {
	p := e.Pair(nil)
	mem := p.Server.Buffer(64, 1)
	const every = 16
	for i := range uint64(50 * every) {
		wr := verbs.SendWR{ID: i, Opcode: verbs.WRRDMAWrite, RemoteAddr: mem.Addr(0), RKey: mem.MR.RKey()}
		if i%every == every-1 {
			wr.Flags = verbs.SendSignaled
		}
		p.Client.Post(wr)
		if wr.Flags != 0 {
			p.Client.Send.OK(i, verbs.WCRDMAWrite)
		}
	}
	p.Quiet()
}

// Protects programs that want every completion.
func testSQSigAll(t *testing.T, e *Env) {
	p := e.Pair(func(c, _ *SideOpts) { c.SQSigAll = true })
	p.Server.PostEmptyRecvs(0, 8)
	for i := range uint64(8) {
		p.Client.Post(verbs.SendWR{ID: i})
	}
	for i := range uint64(8) {
		p.Client.Send.OK(i, verbs.WCSend)
	}
}

// Protects from errors that go unnoticed: they complete, signaled or not.
func testUnsignaledError(t *testing.T, e *Env) {
	p := e.Pair(nil)
	mem := p.Client.Buffer(64, 1)
	p.Client.Post(verbs.SendWR{ID: 5, SGEs: []verbs.SGE{mem.SGE(1, 64)}})
	p.Client.Send.Fails(5, e.localFault()...)
	p.Ended()
}

// Protects what SendInline promises: the payload is taken at the post, the keys
// are not looked at, and all of MaxInline bytes go.
func testInline(t *testing.T, e *Env) {
	n := e.Device.Attr().MaxInline
	e.Need(n > 0, "it sends nothing inline")
	p := e.PairOf(func(o *SideOpts) { o.Cap.MaxInlineData = n })
	mem, err := verbs.AllocMemory(n)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := verbs.FreeMemory(mem[:cap(mem)]); err != nil {
			t.Error(err)
		}
	}()
	mem = mem[:n]
	half := uint32(n / 2)
	sges := []verbs.SGE{
		{Addr: verbs.AddrOf(mem), Length: half, LKey: 0xdeadbeef},
		{Addr: verbs.AddrOf(mem) + uint64(half), Length: uint32(n) - half},
	}
	to := p.Server.Region(n, AllAccess)
	inline := verbs.SendSignaled | verbs.SendInline
	if err := p.Client.QP.Modify(verbs.QPStateSQD); err != nil {
		t.Fatal(err)
	}
	Fill(mem, 1)
	p.Server.PostRecv(verbs.RecvWR{ID: 1, SGEs: to.All()})
	p.Client.Post(verbs.SendWR{ID: 2, Flags: inline, SGEs: sges})
	fillByte(mem, 0)
	if err := p.Client.QP.Modify(verbs.QPStateRTS); err != nil {
		t.Fatal(err)
	}
	p.Server.Recv.OK(1, verbs.WCRecv)
	p.Client.Send.OK(2, verbs.WCSend)
	WantBytes(t, "inline message", to.Mem, Filled(n, 1))
	for i := range uint64(20) { // the RDMA WRITEs overtake no one and share nothing
		Fill(mem, 50+i)
		p.Client.Post(verbs.SendWR{Opcode: verbs.WRRDMAWrite, Flags: verbs.SendInline, SGEs: sges, RemoteAddr: to.Addr(0), RKey: to.MR.RKey()})
	}
	p.Write(nil, 0, 0)
	WantBytes(t, "last inline RDMA WRITE", to.Mem, Filled(n, 69))
}

// Protects from inline data that does not fit, and from inline READs.
func testInlineInvalid(t *testing.T, e *Env) {
	n := e.Device.Attr().MaxInline
	p := e.PairOf(func(o *SideOpts) { o.Cap.MaxInlineData = n })
	mem := p.Client.Buffer(n+64, 1)
	inline := verbs.SendSignaled | verbs.SendInline
	e.WantPostErr("too much inline data", p.Client.QP.PostSend([]verbs.SendWR{{Flags: inline, SGEs: []verbs.SGE{mem.SGE(0, n+1)}}}), 0, verbs.ErrInvalid)
	e.WantPostErr("inline data of 4 GiB and more", p.Client.QP.PostSend([]verbs.SendWR{{Flags: inline, SGEs: []verbs.SGE{
		{Addr: mem.Addr(0), Length: 1<<32 - 1}, {Addr: mem.Addr(0), Length: 2}}}}), 0, verbs.ErrInvalid)
	e.WantPostErr("an inline READ", p.Client.QP.PostSend([]verbs.SendWR{{Opcode: verbs.WRRDMARead, Flags: inline}}), 0, verbs.ErrInvalid)
	p.RoundTrip()
}

// Protects programs that send on what they have read: a fenced SEND carries the
// data of the READ before it.
func testFenceSend(t *testing.T, e *Env) { fence(t, e, verbs.WRSend) }

// Protects the same for an RDMA WRITE.
func testFenceWrite(t *testing.T, e *Env) { fence(t, e, verbs.WRRDMAWrite) }

func fence(t *testing.T, e *Env, op verbs.WROpcode) {
	const n = 200 << 10
	p := e.Pair(nil)
	source, target := p.Server.Region(n, AllAccess), p.Server.Region(n, AllAccess)
	via := p.Client.Region(n, AllAccess)
	for i := range uint64(20) {
		Fill(source.Mem, i)
		fillByte(via.Mem, 0)
		if op == verbs.WRSend {
			p.Server.PostRecv(verbs.RecvWR{ID: i, SGEs: target.All()})
		}
		p.Client.Post(
			verbs.SendWR{ID: 1, Opcode: verbs.WRRDMARead, SGEs: via.All(), RemoteAddr: source.Addr(0), RKey: source.MR.RKey()},
			verbs.SendWR{ID: 2, Opcode: op, Flags: verbs.SendSignaled | verbs.SendFence, SGEs: via.All(), RemoteAddr: target.Addr(0), RKey: target.MR.RKey()})
		if op == verbs.WRSend {
			p.Client.Send.OK(2, verbs.WCSend)
			p.Server.Recv.OK(i, verbs.WCRecv)
		} else {
			p.Client.Send.OK(2, verbs.WCRDMAWrite)
			p.Write(nil, 0, 0)
		}
		WantBytes(t, "data read and passed on", target.Mem, source.Mem)
	}
}
