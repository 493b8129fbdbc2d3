package initiator

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"rbd/internal/netfault"
	"rbd/target"
	"rbd/target/backend"
	"rbd/verbs"
	"rbd/wire"
)

// away is a target behind a proxy: it can be lost, replaced and found again.
type away struct {
	t     *testing.T
	proxy *netfault.Proxy
	d     *disks // nil: there is none
}

func newAway(t *testing.T) *away {
	t.Helper()
	p, err := netfault.New("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return &away{t: t, proxy: p}
}

// serve replaces the target by another one.
func (a *away) serve(cfg target.Config, policy target.AccessPolicy, exports ...target.Export) {
	a.t.Helper()
	a.kill()
	a.d = serve(a.t, cfg, policy)
	for _, e := range exports {
		e.NQN = testNQN
		if _, err := a.d.target.AddNamespace(e); err != nil {
			a.t.Fatal(err)
		}
	}
	a.proxy.SetServer(a.d.addr.Host + ":" + a.d.addr.Port)
	a.proxy.Refuse(false)
}

// kill ends the target.
func (a *away) kill() {
	a.proxy.Refuse(true)
	a.proxy.Cut()
	if a.d != nil {
		a.d.kill()
	}
	a.d = nil
}

// connect connects by the proxy, and closes in the end.
func (a *away) connect(opts Options) *Controller {
	a.t.Helper()
	opts.SubNQN = testNQN
	setDefault(&opts.ReconnectDelay, 20*time.Millisecond)
	c, err := Connect(short(a.t), fastIWARP(), addrOf(a.t, a.proxy.Addr()), opts)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		if err := c.Close(short(a.t)); err != nil {
			a.t.Errorf("close: %v", err)
		}
	})
	return c
}

// kept is a backend that outlives its target.
type kept struct{ backend.Backend }

func (kept) Close() error { return nil }

// disk1 is namespace 1 on a backend.
func disk1(b backend.Backend) target.Export { return target.Export{NSID: 1, Backend: kept{b}} }

func (a *away) state(c *Controller, want State) {
	a.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); c.State() != want; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			a.t.Fatalf("state %v (%v), want %v", c.State(), c.Err(), want)
		}
	}
}

// Protects disks from every loss: under load by both interfaces, with connections
// that are reset and targets that are replaced, no request fails, and what was
// written is there. Queues stay what they are.
func TestReconnectUnderLoad(t *testing.T) {
	a := newAway(t)
	disk := ram(t, 8<<20, 512)
	a.serve(target.Config{}, anyHost, disk1(disk))
	c := a.connect(Options{Queues: 2, QueueSize: 8})
	n, queues := namespace(t, c, 1), slices.Clone(c.Queues())
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range uint64(4) {
		wg.Go(func() {
			got, p := make([]byte, 64<<10), make([]byte, 64<<10)
			for i := uint64(0); ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				for at := 0; at < len(p); at += 8 {
					binary.LittleEndian.PutUint64(p[at:], i<<32|w<<24|uint64(at))
				}
				if err := n.WriteAt(context.Background(), p, w<<20, 0); err != nil {
					t.Errorf("write: %v", err)
					return
				}
				if err := n.ReadAt(context.Background(), got, w<<20); err != nil || !bytes.Equal(got, p) {
					t.Errorf("read: %v, equal %v", err, bytes.Equal(got, p))
					return
				}
			}
		})
		wg.Go(func() {
			back := make(returner, 16)
			reqs := make([]*Request, 16)
			for i := range reqs {
				reqs[i] = &Request{Op: OpWrite, NSID: 1, Offset: 4<<20 + w<<16 + uint64(i)*4096, Length: 4096, Owner: back}
				if err := c.Buffers().Get(context.Background(), 4096, &reqs[i].Buf); err != nil {
					t.Error(err)
					return
				}
				defer c.Buffers().Put(&reqs[i].Buf)
			}
			for out := len(reqs); ; {
				queues[w%2].Submit(reqs)
				for ; out > 0; out-- {
					if r := <-back; r.Err != nil {
						t.Errorf("%v: %v", r.Op, r.Err)
						return
					}
				}
				select {
				case <-stop:
					return
				default:
				}
				out = len(reqs)
			}
		})
	}
	for i := range 6 {
		time.Sleep(30 * time.Millisecond)
		if i%2 == 0 {
			a.proxy.Cut()
			continue
		}
		a.kill()
		a.state(c, StateReconnecting)
		time.Sleep(50 * time.Millisecond)
		a.serve(target.Config{}, anyHost, disk1(disk))
	}
	a.state(c, StateLive)
	time.Sleep(30 * time.Millisecond)
	close(stop)
	wg.Wait()
	if !slices.Equal(queues, c.Queues()) || c.Err() != nil {
		t.Errorf("queues changed, or error %v", c.Err())
	}
	if free := c.Buffers().Free(); free != c.Buffers().Size() {
		t.Errorf("%d of %d bytes are back", free, c.Buffers().Size())
	}
}

// Protects the bound on waiting: after the loss time all requests end, later ones
// at once, and the disk works again when the target is back.
func TestReconnectLossTimeout(t *testing.T) {
	a := newAway(t)
	disk := ram(t, 1<<20, 512)
	a.serve(target.Config{}, anyHost, disk1(disk))
	const limit = 300 * time.Millisecond
	c := a.connect(Options{Queues: 1, QueueSize: 4, LossTimeout: limit})
	n := namespace(t, c, 1)
	a.kill()
	a.state(c, StateReconnecting)
	begin := time.Now()
	errs := make(chan error)
	for range 10 { // more than slots
		go func() { errs <- n.Flush(context.Background()) }()
	}
	for range 10 {
		err := <-errs
		if took := time.Since(begin); !errors.Is(err, ErrConnectionLost) || took > limit+time.Second {
			t.Errorf("after %v: %v", took, err)
		}
	}
	if took := time.Since(begin); took < limit/2 {
		t.Errorf("ended after %v", took)
	}
	if c.State() != StateLost || c.Err() == nil {
		t.Errorf("state %v, error %v", c.State(), c.Err())
	}
	begin = time.Now()
	if err := n.ReadAt(context.Background(), make([]byte, 512), 0); !errors.Is(err, ErrConnectionLost) || time.Since(begin) > time.Second {
		t.Errorf("after %v: %v", time.Since(begin), err)
	}
	select {
	case <-c.Lost():
		t.Error("given up for good")
	default:
	}
	a.serve(target.Config{}, anyHost, disk1(disk))
	a.state(c, StateLive)
	if err := n.WriteAt(short(t), make([]byte, 512), 0, FUA); err != nil || c.Err() != nil {
		t.Errorf("got %v, %v", err, c.Err())
	}
}

// Protects the ways out while the target is away: a context, the end of
// reconnecting, and Close each end waiting at once.
func TestReconnectWaysOut(t *testing.T) {
	a := newAway(t)
	for _, tc := range []struct {
		name string
		end  func(*Controller)
		want error
	}{
		{"stop", func(c *Controller) { c.StopReconnecting() }, ErrConnectionLost},
		{"close", func(c *Controller) { c.Close(short(t)) }, ErrClosed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a.serve(target.Config{}, anyHost, disk1(ram(t, 1<<20, 512)))
			c := a.connect(Options{Queues: 1, ReconnectDelay: time.Hour})
			n := namespace(t, c, 1)
			a.kill()
			a.state(c, StateReconnecting)
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			defer cancel()
			begin := time.Now()
			if err := n.WriteAt(ctx, make([]byte, 512), 0, 0); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("with a context: %v", err)
			}
			if free := c.Buffers().Free(); free != c.Buffers().Size() {
				t.Errorf("%d of %d bytes are back", free, c.Buffers().Size())
			}
			waits := make(chan error, 1)
			go func() { waits <- n.Flush(context.Background()) }()
			for c.Queues()[0].idle() {
				time.Sleep(time.Millisecond)
			}
			tc.end(c)
			if err := <-waits; !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			<-c.Lost()
			if took := time.Since(begin); took > 3*time.Second {
				t.Errorf("took %v", took)
			}
			if err := n.Flush(context.Background()); !errors.Is(err, tc.want) {
				t.Errorf("later: %v", err)
			}
		})
	}
}

// Protects from a target that is lost after StopReconnecting: that is the end.
func TestReconnectStopped(t *testing.T) {
	a := newAway(t)
	a.serve(target.Config{}, anyHost, disk1(ram(t, 1<<20, 512)))
	c := a.connect(Options{Queues: 1})
	c.StopReconnecting()
	if err := namespace(t, c, 1).Flush(short(t)); err != nil || c.State() != StateLive {
		t.Errorf("state %v, %v", c.State(), err)
	}
	a.kill()
	<-c.Lost()
	if c.State() != StateLost {
		t.Errorf("state %v", c.State())
	}
}

// Protects users from waiting for what does not come: a target that refuses the
// host three times ends the waiting, says why, and may let the host in again.
func TestReconnectRefused(t *testing.T) {
	a := newAway(t)
	disk := ram(t, 1<<20, 512)
	host := Host{NQN: "nqn.2020-01.org.example:host", ID: wire.UUID{1}}
	a.serve(target.Config{}, anyHost, disk1(disk))
	c := a.connect(Options{Queues: 1, Host: host, LossTimeout: -1})
	n := namespace(t, c, 1)
	a.serve(target.Config{}, target.AccessPolicy{Hosts: []string{host.NQN + "x"}}, disk1(disk))
	if err := n.Flush(short(t)); !errors.Is(err, ErrConnectionLost) || !strings.Contains(err.Error(), "does not allow this host") {
		t.Errorf("got %v", err)
	}
	if c.State() != StateLost {
		t.Errorf("state %v", c.State())
	}
	a.serve(target.Config{}, target.AccessPolicy{Hosts: []string{host.NQN}}, disk1(disk))
	a.state(c, StateLive)
	if err := n.Flush(short(t)); err != nil {
		t.Error(err)
	}
}

// Protects the data of other disks: what comes back under the number of a namespace
// is used only if it is the same disk and no smaller. The right one is used again
// when it is back.
func TestReconnectIdentity(t *testing.T) {
	const size = 1 << 20
	filled := func(size int64, block int) backend.Backend {
		b := ram(t, size, block)
		if err := b.WriteAt(bytes.Repeat([]byte{7}, int(size)), 0, 0); err != nil {
			t.Fatal(err)
		}
		return b
	}
	id := wire.UUID{1, 2, 3}
	for _, tc := range []struct {
		name    string
		exports func() []target.Export
		want    error
		kind    ChangeKind
		size    uint64
	}{
		{"another UUID", func() []target.Export {
			return []target.Export{{NSID: 1, UUID: wire.UUID{9}, Backend: kept{filled(size, 512)}}}
		}, ErrNoNamespace, NamespaceRemoved, size},
		{"other blocks", func() []target.Export {
			return []target.Export{{NSID: 1, UUID: id, Backend: kept{filled(size, 4096)}}}
		}, ErrNoNamespace, NamespaceRemoved, size},
		{"smaller", func() []target.Export {
			return []target.Export{{NSID: 1, UUID: id, Backend: kept{filled(size/2, 512)}}}
		}, ErrNoNamespace, NamespaceRemoved, size},
		{"gone", func() []target.Export {
			return []target.Export{{NSID: 2, UUID: wire.UUID{8}, Backend: kept{filled(size, 512)}}}
		}, ErrNoNamespace, NamespaceRemoved, size},
		{"larger", func() []target.Export {
			return []target.Export{{NSID: 1, UUID: id, Backend: kept{filled(2*size, 512)}}}
		}, nil, NamespaceChanged, 2 * size},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAway(t)
			right := target.Export{NSID: 1, UUID: id, Backend: kept{filled(size, 512)}}
			a.serve(target.Config{}, anyHost, right)
			changes := make(chan NamespaceChange, 8)
			c := a.connect(Options{Queues: 1, OnNamespaceChange: func(ch NamespaceChange) { changes <- ch }})
			n := namespace(t, c, 1)
			next := func(kind ChangeKind, nsid uint32) {
				t.Helper()
				select {
				case ch := <-changes:
					if ch.Kind != kind || ch.Namespace.NSID() != nsid {
						t.Errorf("namespace %d %v, want %d %v", ch.Namespace.NSID(), ch.Kind, nsid, kind)
					}
				case <-time.After(10 * time.Second):
					t.Errorf("not told that namespace %d is %v", nsid, kind)
				}
			}
			a.kill()
			a.state(c, StateReconnecting)
			waits := make(chan error, 1)
			go func() { waits <- n.WriteAt(context.Background(), make([]byte, 4096), 0, 0) }()
			for c.Queues()[0].idle() {
				time.Sleep(time.Millisecond)
			}
			others := tc.exports()
			a.serve(target.Config{}, anyHost, others...)
			if err := <-waits; !errors.Is(err, tc.want) {
				t.Errorf("write that waited: %v, want %v", err, tc.want)
			}
			if n.Size() != tc.size {
				t.Errorf("size %d, want %d", n.Size(), tc.size)
			}
			next(tc.kind, 1)
			if tc.want == nil {
				return
			}
			if others[0].NSID == 2 {
				next(NamespaceAdded, 2)
			}
			if err := n.WriteAt(short(t), make([]byte, 4096), 0, 0); !errors.Is(err, tc.want) {
				t.Errorf("later write: %v, want %v", err, tc.want)
			}
			p := make([]byte, 4096)
			if err := others[0].Backend.ReadAt(p, 0); err != nil || !bytes.Equal(p, bytes.Repeat([]byte{7}, len(p))) {
				t.Errorf("the other disk was written (%v)", err)
			}
			a.serve(target.Config{}, anyHost, right)
			if others[0].NSID == 2 {
				next(NamespaceRemoved, 2)
			}
			next(NamespaceAdded, 1)
			if err := n.WriteAt(short(t), p, 0, 0); err != nil {
				t.Errorf("the right disk is back: %v", err)
			}
			if again := namespace(t, c, 1); again != n {
				t.Error("it is another Namespace")
			}
		})
	}
}

// Protects queues from a target that grants another number of them, and smaller
// ones, than before: all go on, and Close ends in order.
func TestReconnectOtherLimits(t *testing.T) {
	a := newAway(t)
	disk := ram(t, 8<<20, 512)
	a.serve(target.Config{IOQueues: 4, QueueDepth: 64}, anyHost, disk1(disk))
	c := a.connect(Options{Queues: 8, QueueSize: 64})
	for _, cfg := range []target.Config{
		{IOQueues: 4, QueueDepth: 64}, {IOQueues: 1, QueueDepth: 4, InCapsuleBytes: 4096}, {IOQueues: 3, QueueDepth: 32}, {IOQueues: 8, QueueDepth: 128}, {IOQueues: 2, QueueDepth: 16},
	} {
		a.serve(cfg, anyHost, disk1(disk))
		if got := len(c.Queues()); got != 4 {
			t.Fatalf("%d queues", got)
		}
		back := make(returner, 64)
		for i, q := range c.Queues() {
			var reqs []*Request
			for k := range 10 {
				r := &Request{Op: OpWrite, NSID: 1, Offset: uint64(i*10+k) << 17, Length: 96 << 10, Owner: back}
				if err := c.Buffers().Get(short(t), int(r.Length), &r.Buf); err != nil {
					t.Fatal(err)
				}
				reqs = append(reqs, r)
			}
			q.Submit(reqs)
		}
		for range 40 {
			r := <-back
			if r.Err != nil {
				t.Errorf("%d queues: %v", cfg.IOQueues, r.Err)
			}
			c.Buffers().Put(&r.Buf)
		}
		if want := min(cfg.QueueDepth, 64); c.Info().QueueSize != want || c.Queues()[0].Slots() != want-1 {
			t.Errorf("queue size %d, %d slots, want %d", c.Info().QueueSize, c.Queues()[0].Slots(), want)
		}
	}
}

// Protects from a loss that only this side sees: no try is made before the target's
// keep-alive timer has expired. A loss that the target has made needs no wait.
func TestReconnectQuiescence(t *testing.T) {
	c := &Controller{opts: Options{KeepAlive: 2500 * time.Millisecond}}
	for _, tc := range []struct {
		err  error
		want time.Duration
	}{
		{fmt.Errorf("queue 1: %w", verbs.ErrDisconnected), 0},
		{fmt.Errorf("in a message: %w", io.ErrUnexpectedEOF), 0},
		{ErrTimeout, 6 * time.Second},
		{&WorkError{Work: "send", Status: verbs.WCRetryExcErr}, 6 * time.Second},
		{&ProtocolError{What: "x"}, 6 * time.Second},
	} {
		if got := c.quiescence(tc.err); got != tc.want {
			t.Errorf("%v: %v, want %v", tc.err, got, tc.want)
		}
	}
	c.opts.KeepAlive = -1
	if got := c.quiescence(ErrTimeout); got != 0 {
		t.Errorf("without keep-alive: %v", got)
	}
}

// Protects a program that runs for months: 200 losses leave no goroutine, file or
// memory behind, and queues that work.
func TestReconnectLeaks(t *testing.T) {
	a := newAway(t)
	a.serve(target.Config{}, anyHost, disk1(ram(t, 1<<20, 512)))
	c := a.connect(Options{Queues: 2, QueueSize: 8, ReconnectDelay: time.Millisecond})
	n := namespace(t, c, 1)
	count := func() (goroutines, files int) {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return runtime.NumGoroutine(), len(list)
	}
	round := func() {
		a.proxy.Cut()
		for range 2 { // by both queues
			if err := n.WriteAt(short(t), make([]byte, 4096), 0, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 10 {
		round()
	}
	goroutines, files := count()
	for range 200 {
		round()
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		g, f := count()
		if g <= goroutines+4 && f <= files+4 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines and %d files after 200 losses, %d and %d before", g, f, goroutines, files)
		}
	}
}
