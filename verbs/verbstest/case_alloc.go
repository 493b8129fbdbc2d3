package verbstest

import (
	"testing"
	"time"

	"rbd/verbs"
)

var allocCases = []Case{
	{"AllocsPolled", testAllocsPolled},
	{"AllocsHandled", testAllocsHandled},
	{"AllocsOneSided", testAllocsOneSided},
}

const allocRuns = 200

// wantNoAllocs runs f often and fails the case if it, or the provider meanwhile,
// allocates.
func wantNoAllocs(t *testing.T, what string, f func()) {
	t.Helper()
	for range 50 { // what grows once has grown
		f()
	}
	if n := testing.AllocsPerRun(allocRuns, f); n != 0 {
		t.Errorf("%s: %v allocations", what, n)
	}
}

// spin polls until one completion has come.
func spin(t *testing.T, cq verbs.CQ, wcs []verbs.WC) {
	for range 1_000_000 {
		if cq.Poll(wcs) == 1 {
			if wcs[0].Status != verbs.WCSuccess {
				t.Fatalf("completion %+v", wcs[0])
			}
			return
		}
		time.Sleep(5 * time.Microsecond) // AllocsPerRun leaves one processor to all goroutines
	}
	t.Fatal("no completion")
}

// Protects the speed of small requests: a message to and fro on polled CQs
// allocates nothing, on either side.
func testAllocsPolled(t *testing.T, e *Env) {
	p := e.PairOf(func(o *SideOpts) { o.Mode = Polled })
	c, s := p.Client.Buffer(64, 1), p.Server.Buffer(64, 2)
	csend := []verbs.SendWR{{Flags: verbs.SendSignaled, SGEs: c.All()}}
	ssend := []verbs.SendWR{{Flags: verbs.SendSignaled, SGEs: s.All()}}
	crecv, srecv := []verbs.RecvWR{{SGEs: c.All()}}, []verbs.RecvWR{{SGEs: s.All()}}
	wcs := make([]verbs.WC, 1)
	wantNoAllocs(t, "a message to and fro", func() {
		if p.Server.QP.PostRecv(srecv) != nil || p.Client.QP.PostRecv(crecv) != nil || p.Client.QP.PostSend(csend) != nil {
			t.Fatal("a post was refused")
		}
		spin(t, p.Server.Recv.CQ, wcs)
		if p.Server.QP.PostSend(ssend) != nil {
			t.Fatal("a post was refused")
		}
		spin(t, p.Client.Recv.CQ, wcs)
		spin(t, p.Client.Send.CQ, wcs)
		spin(t, p.Server.Send.CQ, wcs)
	})
}

// Protects the same of handled CQs: the server answers in its handler.
func testAllocsHandled(t *testing.T, e *Env) {
	var server verbs.QP
	var srecv []verbs.RecvWR
	var ssend []verbs.SendWR
	ready := make(chan struct{})
	p := e.Pair(func(c, s *SideOpts) {
		c.Mode = Polled
		s.OnRecv = func(batch []verbs.WC) {
			<-ready
			for _, wc := range batch {
				if wc.Status != verbs.WCSuccess {
					return // the end of the case
				}
				if server.PostRecv(srecv) != nil || server.PostSend(ssend) != nil {
					t.Error("a post was refused")
				}
			}
		}
		s.OnSend = func([]verbs.WC) {}
	})
	c, s := p.Client.Buffer(64, 1), p.Server.Buffer(64, 2)
	server = p.Server.QP
	srecv, ssend = []verbs.RecvWR{{SGEs: s.All()}}, []verbs.SendWR{{Flags: verbs.SendSignaled, SGEs: s.All()}}
	p.Server.PostRecv(srecv[0], srecv[0])
	close(ready)
	csend, crecv := []verbs.SendWR{{Flags: verbs.SendSignaled, SGEs: c.All()}}, []verbs.RecvWR{{SGEs: c.All()}}
	wcs := make([]verbs.WC, 1)
	wantNoAllocs(t, "a message answered by a handler", func() {
		if p.Client.QP.PostRecv(crecv) != nil || p.Client.QP.PostSend(csend) != nil {
			t.Fatal("a post was refused")
		}
		spin(t, p.Client.Recv.CQ, wcs)
		spin(t, p.Client.Send.CQ, wcs)
	})
}

// Protects the same of RDMA READ and WRITE, on the side that serves them too.
func testAllocsOneSided(t *testing.T, e *Env) {
	p := e.PairOf(func(o *SideOpts) { o.Mode = Polled })
	c, s := p.Client.Buffer(4096, 1), p.Server.Buffer(4096, 2)
	wrs := []verbs.SendWR{
		{Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, SGEs: c.All(), RemoteAddr: s.Addr(0), RKey: s.MR.RKey()},
		{Opcode: verbs.WRRDMARead, Flags: verbs.SendSignaled, SGEs: c.All(), RemoteAddr: s.Addr(0), RKey: s.MR.RKey()},
	}
	wcs := make([]verbs.WC, 1)
	wantNoAllocs(t, "an RDMA WRITE and READ", func() {
		if p.Client.QP.PostSend(wrs) != nil {
			t.Fatal("a post was refused")
		}
		spin(t, p.Client.Send.CQ, wcs)
		spin(t, p.Client.Send.CQ, wcs)
	})
}
