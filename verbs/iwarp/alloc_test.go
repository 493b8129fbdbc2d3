package iwarp

import (
	"context"
	"testing"

	"rbd/verbs"
)

// pingPong is a round trip of size bytes between two QPs with handled CQs.
func pingPong(t testing.TB, params string, size int) (round func()) {
	t.Helper()
	var a, b *side
	var sendA, sendB [1]verbs.SendWR
	var recvA, recvB [1]verbs.RecvWR
	back, made := make(chan struct{}, 1), make(chan struct{})
	a, b = tcpSides(t, params, 1<<20, func(wcs []verbs.WC) {
		<-made
		for _, wc := range wcs {
			if wc.Status == verbs.WCSuccess && wc.Opcode == verbs.WCRecv {
				must(t, a.qp.PostRecv(recvA[:]))
				back <- struct{}{}
			}
		}
	}, func(wcs []verbs.WC) {
		<-made
		for _, wc := range wcs {
			if wc.Status == verbs.WCSuccess && wc.Opcode == verbs.WCRecv {
				must(t, b.qp.PostRecv(recvB[:]))
				must(t, b.qp.PostSend(sendB[:]))
			}
		}
	})
	recvA[0].SGEs, recvB[0].SGEs = a.sge(0, size), b.sge(0, size)
	sendA[0].SGEs, sendB[0].SGEs = a.sge(size, size), b.sge(size, size)
	for range 2 {
		must(t, a.qp.PostRecv(recvA[:]))
		must(t, b.qp.PostRecv(recvB[:]))
	}
	close(made)
	return func() {
		must(t, a.qp.PostSend(sendA[:]))
		<-back
	}
}

// oneSided is an RDMA READ or WRITE of size bytes with a waited CQ.
func oneSided(t testing.TB, params string, op verbs.WROpcode, size int) (round func()) {
	t.Helper()
	a, b := tcpSides(t, params, 1<<20, nil, nil)
	wr := []verbs.SendWR{{Opcode: op, SGEs: a.sge(0, size), RKey: b.mr.RKey(), RemoteAddr: b.mr.Addr(), Flags: verbs.SendSignaled}}
	var wcs [1]verbs.WC
	ctx := context.Background()
	return func() {
		must(t, a.cq.ReqNotify())
		must(t, a.qp.PostSend(wr))
		must(t, a.cq.Wait(ctx))
		if a.cq.Poll(wcs[:]) != 1 || wcs[0].Status != verbs.WCSuccess {
			t.Fatalf("%+v", wcs[0])
		}
	}
}

// Protects the data path from producing garbage: no allocation on either side.
func TestNoAllocations(t *testing.T) {
	for _, params := range []string{"", "?crc=on"} {
		for _, size := range []int{64, 200_000} {
			for name, round := range map[string]func(){
				"SEND":  pingPong(t, params, size),
				"WRITE": oneSided(t, params, verbs.WRRDMAWrite, size), "READ": oneSided(t, params, verbs.WRRDMARead, size),
			} {
				round()
				if n := testing.AllocsPerRun(100, round); n != 0 {
					t.Errorf("%s of %d bytes %s: %v allocations", name, size, params, n)
				}
			}
		}
	}
}
