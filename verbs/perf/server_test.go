package perf_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"rbd/verbs"
	"rbd/verbs/perf"
)

// raw is a client that can do wrong.
type raw struct {
	t    *testing.T
	cm   verbs.CMID
	pd   verbs.PD
	cq   verbs.CQ
	qp   verbs.QP
	mr   verbs.MR
	mem  []byte
	priv []byte // what the server answered
}

// dial connects with the given private data.
func dial(t *testing.T, p verbs.Provider, addr verbs.Addr, private []byte) (*raw, error) {
	t.Helper()
	cm, err := p.ResolveAddr(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	r := &raw{t: t, cm: cm}
	t.Cleanup(func() {
		r.cm.Destroy()
		r.cq.Destroy()
		r.mr.Dereg()
		r.pd.Dealloc()
		verbs.FreeMemory(r.mem)
	})
	if r.pd, err = cm.Device().AllocPD(); err != nil {
		t.Fatal(err)
	}
	if r.mem, err = verbs.AllocMemory(4096); err != nil {
		t.Fatal(err)
	}
	if r.mr, err = r.pd.RegMR(r.mem, verbs.AccessLocalWrite); err != nil {
		t.Fatal(err)
	}
	if r.cq, err = cm.Device().CreateCQ(verbs.CQAttr{Depth: 16}); err != nil {
		t.Fatal(err)
	}
	if r.qp, err = cm.CreateQP(r.pd, verbs.QPInitAttr{SendCQ: r.cq, RecvCQ: r.cq, Cap: verbs.QPCap{MaxSendWR: 8, MaxRecvWR: 8}}); err != nil {
		t.Fatal(err)
	}
	answer, err := cm.Connect(t.Context(), verbs.ConnParam{PrivateData: private})
	r.priv = answer.PrivateData
	return r, err
}

// place dials until the server has a place: a test that has just ended, or been
// cut, may still have it.
func place(t *testing.T, p verbs.Provider, addr verbs.Addr, req *perf.Request) *raw {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		r, err := dial(t, p, addr, req.Append(nil))
		if err == nil {
			return r
		}
		var reject perf.Reject
		if rejected := (*verbs.RejectError)(nil); !errors.As(err, &rejected) || reject.Parse(rejected.PrivateData) != nil ||
			reject.Reason != perf.ReasonBusy || time.Since(begun) > 10*time.Second {
			t.Fatal(err)
		}
	}
}

// request is a good one of an op.
func request(op perf.Op, size int) *perf.Request {
	return &perf.Request{Op: op, Size: uint32(size), Seconds: 60}
}

// send posts a SEND of the first n bytes.
func (r *raw) send(n int) {
	r.t.Helper()
	wr := verbs.SendWR{Opcode: verbs.WRSend, SGEs: []verbs.SGE{{Addr: r.mr.Addr(), Length: uint32(n), LKey: r.mr.LKey()}}}
	if err := r.qp.PostSend([]verbs.SendWR{wr}); err != nil {
		r.t.Fatal(err)
	}
}

// cut waits until the server ends the connection.
func (r *raw) cut() {
	r.t.Helper()
	select {
	case <-r.cm.Disconnected():
	case <-time.After(10 * time.Second):
		r.t.Fatal("the server keeps the connection")
	}
}

// works measures, to see that the server is still there.
func works(t *testing.T, p verbs.Provider, addr verbs.Addr) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		_, err := perf.Run(t.Context(), p, addr, perf.Config{Op: perf.SendLat, Size: 8, Iterations: 10})
		if err == nil {
			return
		}
		if !errors.Is(err, perf.ReasonBusy) || time.Since(begun) > 10*time.Second {
			t.Fatal(err)
		}
	}
}

// Protects the server from requests that are none, or ask too much, and tells the
// client what was wrong.
func TestRefusals(t *testing.T) {
	p, addr := serve(t, &perf.Server{})
	future := request(perf.WriteBW, 1).Append(nil)
	future[7]++
	flags := request(perf.WriteBW, 1).Append(nil)
	flags[9] = 0x80
	for _, tt := range []struct {
		name    string
		private []byte
		want    perf.Reason
	}{
		{"no private data", nil, perf.ReasonMalformed},
		{"something else", []byte(strings.Repeat("x", 100)), perf.ReasonMalformed},
		{"another version", future, perf.ReasonMalformed},
		{"unknown flags", flags, perf.ReasonMalformed},
		{"unknown op", request(77, 1).Append(nil), perf.ReasonOp},
		{"no size", request(perf.ReadBW, 0).Append(nil), perf.ReasonSize},
		{"too large", request(perf.WriteBW, 1<<31).Append(nil), perf.ReasonSize},
		{"address overflows", (&perf.Request{Op: perf.WriteLat, Size: 2, Seconds: 1, Addr: 1<<64 - 1}).Append(nil), perf.ReasonAddr},
		{"too long", (&perf.Request{Op: perf.SendLat, Size: 2, Seconds: 1 << 30}).Append(nil), perf.ReasonTime},
	} {
		_, err := dial(t, p, addr, tt.private)
		var rejected *verbs.RejectError
		var r perf.Reject
		if !errors.As(err, &rejected) || r.Parse(rejected.PrivateData) != nil || r.Reason != tt.want {
			t.Errorf("%s: %v (%v), want %v", tt.name, err, r.Reason, tt.want)
		}
	}
	works(t, p, addr)
}

// Protects the other clients from one that breaks the rules: it loses its
// connection, and its place is free again.
func TestFaults(t *testing.T) {
	p, addr := serve(t, &perf.Server{MaxTests: 1})
	for _, tt := range []struct {
		name string
		req  *perf.Request
		do   func(r *raw, reply perf.Reply)
	}{
		{"message longer than the test's", request(perf.SendLat, 8), func(r *raw, _ perf.Reply) { r.send(9) }},
		{"message shorter than the test's", request(perf.SendLat, 8), func(r *raw, _ perf.Reply) { r.send(7) }},
		{"an end with something in it", request(perf.WriteBW, 8), func(r *raw, _ perf.Reply) { r.send(1) }},
		{"answers that nobody takes", request(perf.WriteBW, 8), func(r *raw, _ perf.Reply) { r.send(0) }},
		{"RDMA WRITE behind the end", request(perf.WriteBW, 8), func(r *raw, reply perf.Reply) { r.oneSided(verbs.WRRDMAWrite, reply, 4, 8) }},
		{"RDMA WRITE where only READ is allowed", request(perf.ReadBW, 8), func(r *raw, reply perf.Reply) { r.oneSided(verbs.WRRDMAWrite, reply, 0, 8) }},
		{"RDMA READ where only WRITE is allowed", request(perf.WriteBW, 8), func(r *raw, reply perf.Reply) { r.oneSided(verbs.WRRDMARead, reply, 0, 8) }},
		{"memory that isn't there", &perf.Request{Op: perf.WriteLat, Size: 1, Seconds: 60, RKey: 1, Addr: 1}, func(r *raw, reply perf.Reply) {
			r.mem[0] = 1
			r.oneSided(verbs.WRRDMAWrite, reply, 0, 1)
		}},
		{"gone at once", request(perf.WriteLat, 8), func(r *raw, _ perf.Reply) { r.cm.Disconnect() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := place(t, p, addr, tt.req)
			var reply perf.Reply
			if err := reply.Parse(r.priv); err != nil {
				t.Fatal(err)
			}
			tt.do(r, reply)
			r.cut()
			works(t, p, addr)
		})
	}
}

// oneSided posts an RDMA READ or WRITE of n bytes at off of the server's memory.
func (r *raw) oneSided(op verbs.WROpcode, reply perf.Reply, off, n int) {
	r.t.Helper()
	wr := verbs.SendWR{Opcode: op, RemoteAddr: reply.Addr + uint64(off), RKey: reply.RKey,
		SGEs: []verbs.SGE{{Addr: r.mr.Addr(), Length: uint32(n), LKey: r.mr.LKey()}}}
	if err := r.qp.PostSend([]verbs.SendWR{wr}); err != nil {
		r.t.Fatal(err)
	}
}

// Protects the bound on memory: there are MaxTests places and no more.
func TestBusy(t *testing.T) {
	p, addr := serve(t, &perf.Server{MaxTests: 2})
	for range 2 {
		if _, err := dial(t, p, addr, request(perf.WriteBW, 64).Append(nil)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := perf.Run(t.Context(), p, addr, perf.Config{Op: perf.WriteBW, Size: 64})
	if !errors.Is(err, perf.ReasonBusy) {
		t.Fatalf("a third test: %v", err)
	}
}

// Protects the client: a server that is not one, and one that is not there.
func TestWrongServer(t *testing.T) {
	p, addr := serve(t, &perf.Server{})
	other := addr
	l, err := p.Listen(t.Context(), verbs.Addr{Fabric: addr.Fabric, Host: addr.Host, Port: "0"})
	if err != nil {
		t.Fatal(err)
	}
	other.Port = l.Addr().Port
	go func() {
		for {
			cm, err := l.GetRequest(context.Background())
			if err != nil {
				return
			}
			cm.Reject([]byte("something else"))
		}
	}()
	var rejected *verbs.RejectError
	if _, err := perf.Run(t.Context(), p, other, perf.Config{Op: perf.WriteBW, Size: 1}); !errors.As(err, &rejected) || !strings.Contains(err.Error(), "is 'rbd-target perf' there?") {
		t.Errorf("another program: %v", err)
	}
	l.Close()
	if _, err := perf.Run(t.Context(), p, other, perf.Config{Op: perf.WriteBW, Size: 1}); err == nil || !strings.Contains(err.Error(), other.String()) {
		t.Errorf("nobody there: %v", err)
	}
}
