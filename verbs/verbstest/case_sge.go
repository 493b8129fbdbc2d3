package verbstest

import (
	"testing"

	"rbd/verbs"
)

var sgeCases = []Case{
	{"GatherScatter", testGatherScatter},
	{"SGEsOfManyRegions", testSGEsOfManyRegions},
	{"SGELimit", testSGELimit},
	{"SGEListsReusable", testSGEListsReusable},
}

// split cuts a region into SGEs of the lengths, with a hole of one byte between.
func split(r *Region, lens ...int) (sges []verbs.SGE, joined func() []byte) {
	off := 0
	for _, n := range lens {
		sges = append(sges, r.SGE(off, n))
		off += n + 1
	}
	return sges, func() (b []byte) {
		off := 0
		for _, n := range lens {
			b = append(b, r.Mem[off:off+n]...)
			off += n + 1
		}
		return b
	}
}

// Protects the lists of SGEs on both sides of every operation: uneven, empty,
// and cut at other places than the peer's.
func testGatherScatter(t *testing.T, e *Env) {
	a := e.Device.Attr()
	e.Need(a.MaxSGE >= 4, "it takes fewer than 4 SGEs")
	p := e.Pair(nil)
	const size = 300 << 10
	for i, tt := range []struct{ from, to []int }{
		{[]int{1, 2, 3, 4}, []int{10}},
		{[]int{10}, []int{4, 3, 2, 1}},
		{[]int{0, 5, 0, 5}, []int{3, 0, 0, 7}},
		{[]int{4096, 1, 4096}, []int{1, 8192}},
		{[]int{65536, 65537, 1, 100000}, []int{100000, 3, 65536, 65535}},
		{[]int{1, 1, 1, 200000}, []int{200000, 1, 1, 1}},
	} {
		c, s := p.Client.Buffer(size, uint64(i)), p.Server.Buffer(size, uint64(100+i))
		from, sent := split(c, tt.from...)
		to, received := split(s, tt.to...)
		wc := p.Message(from, to)
		WantBytes(t, "message", received()[:wc.ByteLen], sent())
		p.Write(from, s.Addr(11), s.MR.RKey())
		WantBytes(t, "RDMA WRITE", s.Mem[11:][:wc.ByteLen], sent())
		if len(tt.from) > a.MaxSGERead {
			continue
		}
		Fill(s.Mem, uint64(200+i))
		want := append([]byte(nil), c.Mem...)
		p.Read(from, s.Addr(11), s.MR.RKey())
		WantBytes(t, "RDMA READ", sent(), s.Mem[11:][:wc.ByteLen])
		off := 0
		for _, n := range tt.from { // the holes
			off += n
			if c.Mem[off] != want[off] {
				t.Errorf("RDMA READ wrote to byte %d between two SGEs", off)
			}
			off++
		}
	}
}

// Protects requests whose SGEs are of several regions, and name one piece twice.
func testSGEsOfManyRegions(t *testing.T, e *Env) {
	e.Need(e.Device.Attr().MaxSGE >= 3, "it takes fewer than 3 SGEs")
	p := e.Pair(nil)
	a, b := p.Client.Buffer(100, 1), p.Client.Buffer(100, 2)
	to := p.Server.Region(300, AllAccess)
	p.Message([]verbs.SGE{a.SGE(0, 100), b.SGE(0, 100), a.SGE(0, 100)}, to.All())
	WantBytes(t, "first", to.Mem[:100], a.Mem)
	WantBytes(t, "second", to.Mem[100:200], b.Mem)
	WantBytes(t, "third", to.Mem[200:], a.Mem)
}

// Protects the queue's slots: as many SGEs as the QP was made for, and one more
// is refused at the post.
func testSGELimit(t *testing.T, e *Env) {
	a := e.Device.Attr()
	p := e.PairOf(func(o *SideOpts) { o.Cap.MaxSendSGE, o.Cap.MaxRecvSGE = a.MaxSGE, a.MaxSGE })
	ones := func(r *Region, n int) []verbs.SGE {
		sges := make([]verbs.SGE, n)
		for i := range sges {
			sges[i] = r.SGE(i, 1)
		}
		return sges
	}
	c, s := p.Client.Buffer(a.MaxSGE+1, 1), p.Server.Region(a.MaxSGE+1, AllAccess)
	p.Message(ones(c, a.MaxSGE), ones(s, a.MaxSGE))
	WantBytes(t, "message", s.Mem[:a.MaxSGE], c.Mem[:a.MaxSGE])
	p.Read(ones(c, a.MaxSGERead), s.Addr(0), s.MR.RKey())
	wr := verbs.SendWR{SGEs: ones(c, a.MaxSGE+1)}
	e.WantPostErr("a SEND of too many SGEs", p.Client.QP.PostSend([]verbs.SendWR{wr}), 0, verbs.ErrInvalid)
	wr.Opcode = verbs.WRRDMARead
	wr.SGEs = ones(c, min(a.MaxSGE, a.MaxSGERead)+1)
	e.WantPostErr("a READ of too many SGEs", p.Client.QP.PostSend([]verbs.SendWR{wr}), 0, verbs.ErrInvalid)
	recv := verbs.RecvWR{SGEs: ones(s, a.MaxSGE+1)}
	e.WantPostErr("a receive of too many SGEs", p.Server.QP.PostRecv([]verbs.RecvWR{recv}), 0, verbs.ErrInvalid)
	p.RoundTrip()
}

// Protects callers that build every request in one place: the post has copied
// it, the SGE list included.
func testSGEListsReusable(t *testing.T, e *Env) {
	p := e.Pair(nil)
	c, s := p.Client.Buffer(64, 1), p.Server.Region(64, AllAccess)
	if err := p.Client.QP.Modify(verbs.QPStateSQD); err != nil {
		t.Fatal(err)
	}
	recvs := []verbs.RecvWR{{}}
	sends := []verbs.SendWR{{}}
	sge, rsge := make([]verbs.SGE, 1), make([]verbs.SGE, 1)
	for i := range 8 {
		sge[0], rsge[0] = c.SGE(8*i, 8), s.SGE(8*i, 8)
		recvs[0] = verbs.RecvWR{ID: uint64(i), SGEs: rsge}
		sends[0] = verbs.SendWR{ID: uint64(i), Flags: verbs.SendSignaled, SGEs: sge}
		p.Server.PostRecv(recvs...)
		p.Client.Post(sends...)
	}
	sge[0], rsge[0], recvs[0], sends[0] = verbs.SGE{}, verbs.SGE{}, verbs.RecvWR{}, verbs.SendWR{}
	if err := p.Client.QP.Modify(verbs.QPStateRTS); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(8) {
		p.Server.Recv.OK(i, verbs.WCRecv)
		p.Client.Send.OK(i, verbs.WCSend)
	}
	WantBytes(t, "messages", s.Mem, c.Mem)
}
