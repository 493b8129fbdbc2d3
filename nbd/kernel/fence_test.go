package kernel

import (
	"sync"
	"testing"
	"time"

	"rbd/nbd"
	"rbd/nbd/nbdtest"
)

// gate is a disk whose first request waits until it is let go, and that notes the
// order in which writes of block 0 are done.
type gate struct {
	*nbdtest.RAM
	mu      sync.Mutex
	began   chan struct{} // closed when the first request is at the disk
	open    chan struct{} // closed to let it go
	first   sync.Once
	written []byte // first bytes of the writes, as they are done
}

func newGate(t *testing.T) *gate {
	g := &gate{RAM: newRAM(t), began: make(chan struct{}), open: make(chan struct{})}
	g.RAM.Async = true
	g.RAM.Fault = func(r *nbd.Request) error {
		g.first.Do(func() {
			close(g.began)
			<-g.open
		})
		if r.Op == nbd.OpWrite {
			g.mu.Lock()
			g.written = append(g.written, r.Buf.Data[0])
			g.mu.Unlock()
		}
		return nil
	}
	return g
}

func (g *gate) order() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return string(g.written)
}

func write(b byte, cookie uint64) nbdtest.Request {
	p := make([]byte, 512)
	for i := range p {
		p[i] = b
	}
	return nbdtest.Request{Cmd: nbdtest.CmdWrite, Cookie: cookie, Payload: p}
}

func attachGate(t *testing.T, g *gate) (*fakeKernel, *Attachment) {
	t.Helper()
	k, h := newFakeKernel(t)
	s, _ := newServer(t, g.RAM)
	a, err := h.Attach(s, nbd.Export{Name: "1", Device: g}, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.ForceDetach(t.Context()); err != nil {
			t.Log(err) // the context of a test that is over
		}
		await(t, a)
	})
	return k, a
}

// A write that the kernel has given up and sent again is not overtaken by itself:
// the copy, and what comes after it, waits until the first one is done. Without the
// fence the order would be "bca" or "cba": a lost write.
func TestFenceKeepsOrder(t *testing.T) {
	g := newGate(t)
	k, _ := attachGate(t, g)
	if err := k.socket(0).Send(write('a', 1)); err != nil {
		t.Fatal(err)
	}
	<-g.began
	other := k.socket(1)
	k.mu.Lock()
	k.drop(0) // its time is over
	k.mu.Unlock()
	done := make(chan nbdtest.Reply, 2)
	go func() {
		for _, r := range []nbdtest.Request{write('b', 2), write('c', 3)} {
			if reply, err := other.Do(r); err == nil {
				done <- reply
			}
		}
		close(done)
	}()
	select {
	case <-done:
		t.Fatalf("the copy was done first: %q", g.order())
	case <-time.After(200 * time.Millisecond):
	}
	close(g.open)
	for range 2 {
		if r, ok := <-done; !ok || r.Error != 0 {
			t.Fatalf("reply %+v, %v", r, ok)
		}
	}
	if got := g.order(); got != "abc" {
		t.Fatalf("writes were done in the order %q, want abc", got)
	}
	ask(t, k.socket(0), nbdtest.Request{Cmd: nbdtest.CmdFlush, Cookie: 4}) // it has been replaced
}

// A request that the kernel has given up while it waited, or before it was read,
// is not done at all: its copy is.
func TestFenceDropsStale(t *testing.T) {
	g := newGate(t)
	k, _ := attachGate(t, g)
	if err := k.socket(0).Send(write('a', 1)); err != nil {
		t.Fatal(err)
	}
	<-g.began
	stale := k.socket(1)
	k.mu.Lock()
	k.drop(0)
	k.mu.Unlock()
	if err := stale.Send(write('x', 2)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // it is read, and waits, or is still to be read
	if err := stale.Send(write('y', 3)); err != nil {
		t.Fatal(err)
	}
	k.mu.Lock()
	k.drop(1)
	k.mu.Unlock()
	close(g.open)
	ask(t, k.socket(0), write('b', 4))
	if got := g.order(); got != "ab" {
		t.Fatalf("writes were done in the order %q, want ab", got)
	}
}

// A forced end does not wait for the disk.
func TestForceDetachWhileHeld(t *testing.T) {
	g := newGate(t)
	k, a := attachGate(t, g)
	if err := k.socket(0).Send(write('a', 1)); err != nil {
		t.Fatal(err)
	}
	<-g.began
	k.mu.Lock()
	k.drop(0)
	k.mu.Unlock()
	if err := k.socket(1).Send(write('b', 2)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond)
	start := time.Now()
	if err := a.ForceDetach(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d > patience/2 {
		t.Fatalf("took %v", d)
	}
	close(g.open)
	await(t, a)
	if got := g.order(); got != "a" {
		t.Fatalf("writes were done in the order %q, want a", got)
	}
}

// The look at the sockets allocates nothing: it is done for each batch.
func TestFenceAllocs(t *testing.T) {
	f := newFence()
	for range 4 {
		p, err := newPair()
		if err != nil {
			t.Fatal(err)
		}
		defer closePairs([]pair{p})
		fd, err := duplicate(p.near)
		if err != nil {
			t.Fatal(err)
		}
		f.queues = append(f.queues, &fencedQueue{fence: f, socket: fd})
		defer closeKernel([]pair{{kernel: fd}})
	}
	if n := testing.AllocsPerRun(100, func() {
		if !f.pass(f.queues[0]) {
			t.Fatal("a sound connection may not proceed")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkFence(b *testing.B) {
	f := newFence()
	for range 4 {
		p, err := newPair()
		if err != nil {
			b.Fatal(err)
		}
		defer closePairs([]pair{p})
		f.queues = append(f.queues, &fencedQueue{fence: f, socket: p.kernel})
	}
	for b.Loop() {
		f.pass(f.queues[0])
	}
}
