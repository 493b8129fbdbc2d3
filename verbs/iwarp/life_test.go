package iwarp

import (
	"context"
	"errors"
	"net/url"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rbd/verbs"
)

// Protects users from parameters that do nothing.
func TestAddrParams(t *testing.T) {
	for params, want := range map[string]string{
		"": "", "crc=on": "", "crc=off": "", "crc=": "expected on or off", "crc=1": "expected on or off",
		"crc=on&crc=off": "expected on or off", "mtu=9000": `unknown parameter "mtu"`,
	} {
		values, err := url.ParseQuery(params)
		must(t, err)
		_, err = addrParams(verbs.Addr{Fabric: Name, Params: values})
		if want == "" && err != nil || want != "" && (!errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", params, err)
		}
	}
	if _, err := addrParams(verbs.Addr{Fabric: "rdma"}); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("another fabric: %v", err)
	}
}

// Protects one-sidedness: the peer's program does not poll, wait or post, and has
// no completion in the end, while its memory is read and written.
func TestOneSidedNeedsNoProgram(t *testing.T) {
	a, b := tcpSides(t, "", 1<<20, nil, nil)
	fill(b.mem, 4)
	half := len(a.mem) / 2
	must(t, a.qp.PostSend([]verbs.SendWR{
		{ID: 1, Opcode: verbs.WRRDMARead, SGEs: a.sge(0, half), RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey(), Flags: verbs.SendSignaled},
		{ID: 2, Opcode: verbs.WRRDMAWrite, SGEs: a.sge(0, half), RemoteAddr: b.mr.Addr() + uint64(half), RKey: b.mr.RKey(), Flags: verbs.SendFence},
		{ID: 3, Opcode: verbs.WRRDMARead, SGEs: a.sge(half, half), RemoteAddr: b.mr.Addr() + uint64(half), RKey: b.mr.RKey(), Flags: verbs.SendSignaled}}))
	a.ok(t, 1, 3)
	if string(a.mem[:half]) != string(b.mem[:half]) || string(b.mem[half:]) != string(b.mem[:half]) || string(a.mem[half:]) != string(a.mem[:half]) {
		t.Error("data differs")
	}
	if n := b.cq.Poll(make([]verbs.WC, 1)); n != 0 {
		t.Error("the peer has a completion")
	}
}

// Protects a stuck peer's neighbours and memory: when it reads nothing, a post
// does not wait, the region can be deregistered, and the request that used it
// fails alone.
func TestStuckPeer(t *testing.T) {
	a, b := newSide(t, New().dev, nil, 1<<20).bare(t), newSide(t, New().dev, nil, 4096)
	x, _ := memStreams(100_000, 1<<20)
	must(t, a.qp.start(x, link{ird: 1, ord: 1, mss: 1448}))
	region, err := a.pd.RegMR(b.mem, 0)
	must(t, err)
	must(t, a.qp.PostSend([]verbs.SendWR{
		{ID: 1, SGEs: a.sge(0, 50_000), Flags: verbs.SendSignaled},
		{ID: 2, SGEs: a.sge(0, 80_000), Flags: verbs.SendSignaled},
		{ID: 3, SGEs: []verbs.SGE{{Addr: region.Addr(), Length: 4096, LKey: region.LKey()}}}}))
	a.ok(t, 1)
	must(t, region.Dereg())
	x.out.mu.Lock()
	x.out.limit += 50_000
	x.out.cond.Broadcast()
	x.out.mu.Unlock()
	if err := a.end(t); err == nil || !strings.Contains(err.Error(), "local memory: unknown key") {
		t.Errorf("the end: %v", err)
	}
	wcs := a.take(t, 2)
	if wcs[0].ID != 2 || wcs[1].ID != 3 || wcs[1].Status != verbs.WCLocProtErr {
		t.Errorf("%+v", wcs)
	}
}

// Protects from leftovers of connections that are given up at any stage; TestMain
// looks for goroutines.
func TestGiveUp(t *testing.T) {
	p := New()
	ctx := background(t)
	l, err := p.Listen(ctx, verbs.Addr{Fabric: Name, Host: "127.0.0.1", Port: "0"})
	must(t, err)
	resolve := func() verbs.CMID {
		id, err := p.ResolveAddr(ctx, l.Addr())
		must(t, err)
		return id
	}
	must(t, resolve().Destroy())
	// Connect is cancelled, or its CMID destroyed, while the other side waits.
	for _, giveUp := range []func(id verbs.CMID, cancel func()){
		func(_ verbs.CMID, cancel func()) { cancel() },
		func(id verbs.CMID, _ func()) { must(t, id.Destroy()) },
	} {
		id := resolve()
		newSide(t, p.dev, nil, 4096).on(t, id)
		cctx, cancel := context.WithCancel(ctx)
		failed := make(chan error, 1)
		go func() {
			_, err := id.Connect(cctx, verbs.ConnParam{})
			failed <- err
		}()
		peer, err := l.GetRequest(ctx)
		must(t, err)
		s := newSide(t, p.dev, nil, 4096).on(t, peer)
		must(t, s.qp.PostRecv([]verbs.RecvWR{{ID: 1}}))
		giveUp(id, cancel)
		if err := <-failed; err == nil {
			t.Error("Connect has connected")
		}
		cancel()
		if _, err := peer.Accept(ctx, verbs.ConnParam{}); err == nil {
			select {
			case <-peer.Disconnected():
			case <-time.After(10 * time.Second):
				t.Error("the passive side does not learn of it")
			}
		}
		if wc := s.take(t, 1)[0]; wc.Status != verbs.WCWRFlushErr {
			t.Errorf("%+v", wc)
		}
	}
	// Requests are in the listener when it is closed.
	id := resolve()
	newSide(t, p.dev, nil, 4096).on(t, id)
	failed := make(chan error, 1)
	go func() {
		_, err := id.Connect(ctx, verbs.ConnParam{})
		failed <- err
	}()
	for len(l.(*listener).requests) == 0 {
		time.Sleep(time.Millisecond)
	}
	must(t, l.Close())
	var reject *verbs.RejectError
	if err := <-failed; !errors.As(err, &reject) {
		t.Errorf("connect: %v", err)
	}
}

// reader is a stream that notes reads which come too late.
type reader struct {
	stream
	over, late atomic.Bool
}

func (s *reader) Readv(iov []unix.Iovec) (int, error) {
	if s.over.Load() {
		s.late.Store(true)
	}
	return s.stream.Readv(iov)
}

// Protects owners who destroy a QP that is just being connected: nothing of it runs
// when Destroy has returned.
func TestDestroyWhileStarting(t *testing.T) {
	s := newSide(t, New().dev, nil, 4096)
	for range 500 {
		s.bare(t)
		x, _ := memStreams(4096, 4096)
		r := &reader{stream: x}
		started := make(chan error, 1)
		go func() { started <- s.qp.start(r, link{active: true, ird: 1, ord: 1, mss: 65483}) }()
		for s.qp.State() == verbs.QPStateInit {
			runtime.Gosched()
		}
		must(t, s.qp.Destroy())
		r.over.Store(true)
		must(t, <-started)
		must(t, x.Close())
		s.qp.services.Wait()
		if r.late.Load() {
			t.Fatal("the receiver has begun after Destroy")
		}
	}
}

// Protects users who leave out the brackets of IPv6: ::1:4420 is another address than ::1.
func TestBracketHint(t *testing.T) {
	addr, err := verbs.ParseAddr("::1:4420", "0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := New().Listen(t.Context(), addr)
	if err == nil {
		l.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "is [::1]:4420") {
		t.Errorf("%v", err)
	}
}
