package iwarp

import (
	"context"
	"testing"
	"time"

	"rbd/verbs"
)

type side struct {
	pd  verbs.PD
	cq  verbs.CQ
	qp  verbs.QP
	id  verbs.CMID
	mr  verbs.MR
	mem []byte
}

func (s *side) sge(off, n int) []verbs.SGE {
	return []verbs.SGE{{Addr: s.mr.Addr() + uint64(off), Length: uint32(n), LKey: s.mr.LKey()}}
}

func mk(t testing.TB, id verbs.CMID, handler func([]verbs.WC), memSize int) *side {
	s := &side{id: id}
	var err error
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s.pd, err = id.Device().AllocPD()
	must(err)
	s.cq, err = id.Device().CreateCQ(verbs.CQAttr{Depth: 1024, Handler: handler})
	must(err)
	s.mem, err = verbs.AllocMemory(memSize)
	must(err)
	s.mr, err = s.pd.RegMR(s.mem, verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite)
	must(err)
	s.qp, err = id.CreateQP(s.pd, verbs.QPInitAttr{SendCQ: s.cq, RecvCQ: s.cq, Cap: verbs.QPCap{MaxSendWR: 256, MaxRecvWR: 256, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 128}})
	must(err)
	t.Cleanup(func() {
		must(s.id.Destroy())
		must(s.cq.Destroy())
		must(s.mr.Dereg())
		must(s.pd.Dealloc())
		must(verbs.FreeMemory(s.mem))
	})
	return s
}

func pairUp(t testing.TB, params string, memSize int, ha, hb func([]verbs.WC)) (a, b *side) {
	p := New()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	addr, err := verbs.ParseAddr("iwarp://127.0.0.1:0", "0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := p.Listen(ctx, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	target, err := verbs.ParseAddr(l.Addr().String()+params, "0")
	if err != nil {
		t.Fatal(err)
	}
	id, err := p.ResolveAddr(ctx, target)
	if err != nil {
		t.Fatal(err)
	}
	a = mk(t, id, ha, memSize)
	got := make(chan *side)
	go func() {
		id, err := l.GetRequest(ctx)
		if err != nil {
			t.Error(err)
		}
		b := mk(t, id, hb, memSize)
		if _, err := id.Accept(ctx, verbs.ConnParam{ResponderResources: 16, InitiatorDepth: 16}); err != nil {
			t.Error(err)
		}
		got <- b
	}()
	if _, err := id.Connect(ctx, verbs.ConnParam{ResponderResources: 16, InitiatorDepth: 16}); err != nil {
		t.Fatal(err)
	}
	return a, <-got
}

func poll1(t testing.TB, s *side) verbs.WC {
	t.Helper()
	var wc [1]verbs.WC
	end := time.Now().Add(5 * time.Second)
	for s.cq.Poll(wc[:]) == 0 {
		if time.Now().After(end) {
			t.Fatal("no completion")
		}
		time.Sleep(time.Microsecond * 100)
	}
	return wc[0]
}

func TestBasic(t *testing.T) {
	for _, params := range []string{"", "?crc=on"} {
		a, b := pairUp(t, params, 1<<20, nil, nil)
		for i := range a.mem {
			a.mem[i] = byte(i * 7)
		}
		if err := b.qp.PostRecv([]verbs.RecvWR{{ID: 5, SGEs: b.sge(0, 100)}}); err != nil {
			t.Fatal(err)
		}
		if err := a.qp.PostSend([]verbs.SendWR{{ID: 1, SGEs: a.sge(0, 77), Flags: verbs.SendSignaled}}); err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", poll1(t, a))
		t.Logf("%+v", poll1(t, b))
		if string(a.mem[:77]) != string(b.mem[:77]) {
			t.Fatal("differ")
		}
		if err := a.qp.PostSend([]verbs.SendWR{{ID: 2, Opcode: verbs.WRRDMAWrite, SGEs: a.sge(0, 500000), RKey: b.mr.RKey(), RemoteAddr: b.mr.Addr(), Flags: verbs.SendSignaled}}); err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", poll1(t, a))
		if err := a.qp.PostSend([]verbs.SendWR{{ID: 3, Opcode: verbs.WRRDMARead, SGEs: a.sge(500000, 500000), RKey: b.mr.RKey(), RemoteAddr: b.mr.Addr(), Flags: verbs.SendSignaled}}); err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", poll1(t, a))
		if string(a.mem[:500000]) != string(a.mem[500000:1000000]) {
			t.Fatal("differ")
		}
		if err := a.id.Disconnect(); err != nil {
			t.Fatal(err)
		}
		<-b.id.Disconnected()
		t.Log(b.id.Err())
	}
}

func pingPong(t testing.TB, size int) (round func(), done func()) {
	var a, b *side
	back := make(chan struct{}, 1)
	wrsA := make([]verbs.SendWR, 1)
	rrA := make([]verbs.RecvWR, 1)
	wrsB := make([]verbs.SendWR, 1)
	rrB := make([]verbs.RecvWR, 1)
	ready := make(chan struct{})
	a, b = pairUp(t, "", 1<<20, func(wcs []verbs.WC) {
		for _, wc := range wcs {
			if wc.Status != verbs.WCSuccess {
				continue
			}
			if wc.Opcode == verbs.WCRecv {
				a.qp.PostRecv(rrA)
				back <- struct{}{}
			}
		}
	}, func(wcs []verbs.WC) {
		<-ready
		for _, wc := range wcs {
			if wc.Status == verbs.WCSuccess && wc.Opcode == verbs.WCRecv {
				b.qp.PostRecv(rrB)
				b.qp.PostSend(wrsB)
			}
		}
	})
	rrA[0].SGEs, rrB[0].SGEs = a.sge(0, size), b.sge(0, size)
	wrsA[0].SGEs, wrsB[0].SGEs = a.sge(size, size), b.sge(size, size)
	for range 2 {
		a.qp.PostRecv(rrA)
		b.qp.PostRecv(rrB)
	}
	close(ready)
	return func() {
		if err := a.qp.PostSend(wrsA); err != nil {
			t.Fatal(err)
		}
		<-back
	}, func() {}
}

func TestPingPong(t *testing.T) {
	round, _ := pingPong(t, 64)
	for range 1000 {
		round()
	}
	if n := testing.AllocsPerRun(1000, round); n != 0 {
		t.Errorf("%v allocs", n)
	}
}

func BenchmarkPingPong(b *testing.B) {
	round, _ := pingPong(b, 64)
	for b.Loop() {
		round()
	}
}

func BenchmarkWrite(b *testing.B) {
	x, y := pairUp(b, "", 8<<20, nil, nil)
	const size = 1 << 20
	wr := []verbs.SendWR{{Opcode: verbs.WRRDMAWrite, SGEs: x.sge(0, size), RKey: y.mr.RKey(), RemoteAddr: y.mr.Addr(), Flags: verbs.SendSignaled}}
	b.SetBytes(size)
	inflight := 0
	ctx := context.Background()
	var wcs [16]verbs.WC
	for b.Loop() {
		for inflight >= 4 {
			x.cq.ReqNotify()
			n := x.cq.Poll(wcs[:])
			if n == 0 {
				x.cq.Wait(ctx)
			}
			inflight -= n
		}
		x.qp.PostSend(wr)
		inflight++
	}
}
