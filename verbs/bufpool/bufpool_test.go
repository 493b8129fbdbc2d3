package bufpool

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rbd/verbs"
)

// Protects callers' arithmetic: sizes are rounded up to whole blocks, blocks to
// powers of two.
func TestNew(t *testing.T) {
	for _, tt := range []struct{ size, maxBlock, wantSize, wantMax int }{
		{1, 1, 4096, 4096},
		{4096, 4096, 4096, 4096},
		{4097, 4096, 8192, 4096},
		{4097, 4097, 8192, 8192},
		{10 << 20, 1 << 20, 10 << 20, 1 << 20},
		{10<<20 + 1, 1<<20 - 1, 11 << 20, 1 << 20},
		{3 << 20, 1<<20 + 1, 4 << 20, 2 << 20},
	} {
		p := newPool(t, tt.size, tt.maxBlock)
		if p.Size() != tt.wantSize || p.MaxBlock() != tt.wantMax || p.Free() != tt.wantSize {
			t.Errorf("New(%d, %d): size %d, largest block %d, free %d; want %d, %d and all", tt.size, tt.maxBlock, p.Size(), p.MaxBlock(), p.Free(), tt.wantSize, tt.wantMax)
		}
		var bufs []*Buf
		for p.Free() > 0 {
			bufs = append(bufs, mustGet(t, p, p.MaxBlock()))
		}
		for _, b := range bufs {
			p.Put(b)
		}
	}
}

// Protects from pools that can't be, and the memory of one that could not be
// registered.
func TestNewErrors(t *testing.T) {
	for _, s := range [][2]int{{0, 1}, {-1, 1}, {1, 0}, {1, -1}, {4096, 4097}} {
		if _, err := New(&fakePD{}, s[0], s[1], 0); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("New(%d, %d): error %v", s[0], s[1], err)
		}
	}
	refused := errors.New("refused")
	if _, err := New(&fakePD{err: refused}, 4096, 4096, 0); !errors.Is(err, refused) {
		t.Errorf("error %v, want that of RegMR", err)
	}
	pd := &fakePD{}
	p, err := New(pd, 4096, 4096, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	if err != nil || pd.access != verbs.AccessLocalWrite|verbs.AccessRemoteWrite {
		t.Fatalf("registered with %v, error %v", pd.access, err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// inLine puts a waiter in line; its name is sent when it is served.
func inLine(t *testing.T, p *Pool, n int, name string, served *[]string) *Waiter {
	t.Helper()
	w := &Waiter{}
	w.Ready = func(*Waiter) { *served = append(*served, name) }
	if p.GetOrWait(n, w) {
		t.Fatalf("%s did not have to wait", name)
	}
	return w
}

// Protects large requests from small ones that come later: those would fit, and
// wait all the same.
func TestLineIsServedInOrder(t *testing.T) {
	p := newPool(t, 4*MinBlock, 4*MinBlock)
	a, b := mustGet(t, p, MinBlock), mustGet(t, p, MinBlock)
	var served []string
	large := inLine(t, p, 4*MinBlock, "large", &served)
	small := inLine(t, p, MinBlock, "small", &served)
	tiny := inLine(t, p, 1, "tiny", &served)
	var c Buf
	if p.TryGet(1, &c) {
		t.Fatal("TryGet overtook those in line")
	}
	p.Put(a)
	if len(served) != 0 {
		t.Fatalf("%v were served before the large request", served)
	}
	p.Put(b)
	if !slices.Equal(served, []string{"large"}) {
		t.Fatalf("served: %v", served)
	}
	p.Put(&large.Buf)
	if !slices.Equal(served, []string{"large", "small", "tiny"}) {
		t.Fatalf("served: %v", served)
	}
	p.Put(&small.Buf)
	p.Put(&tiny.Buf)
}

// Protects those behind a request that is given up: they need not wait for it.
func TestCancelServesThoseBehind(t *testing.T) {
	p := newPool(t, 4*MinBlock, 4*MinBlock)
	a := mustGet(t, p, MinBlock)
	var served []string
	large := inLine(t, p, 4*MinBlock, "large", &served)
	x, y := inLine(t, p, MinBlock, "x", &served), inLine(t, p, 2*MinBlock, "y", &served)
	if !p.Cancel(large) || large.Buf.Data != nil {
		t.Fatalf("cancel: buffer %v", large.Buf.Data)
	}
	if !slices.Equal(served, []string{"x", "y"}) {
		t.Fatalf("served: %v", served)
	}
	for _, b := range []*Buf{a, &x.Buf, &y.Buf} {
		p.Put(b)
	}
	// The waiter may be used again.
	large.Ready = func(*Waiter) { t.Error("Ready of a request that was answered at once") }
	if !p.GetOrWait(4*MinBlock, large) {
		t.Fatal("no room in a pool that is whole")
	}
	p.Put(&large.Buf)
}

// Protects the owner's locks: Ready runs without the pool's, and may use the pool.
func TestReadyMayUsePool(t *testing.T) {
	p := newPool(t, MinBlock, MinBlock)
	a := mustGet(t, p, 1)
	calls := 0
	w := &Waiter{}
	w.Ready = func(w *Waiter) {
		if calls++; calls < 1000 {
			p.Put(&w.Buf)
			if !p.GetOrWait(1, w) {
				t.Error("no room in a pool that is whole")
			}
		}
		p.Put(&w.Buf)
	}
	if p.GetOrWait(1, w) {
		t.Fatal("a block of a pool that has none")
	}
	p.Put(a)
	if calls != 1 || p.Free() != p.Size() {
		t.Errorf("%d calls, %d of %d bytes free", calls, p.Free(), p.Size())
	}
}

// Protects the account when Put and Cancel meet: either the waiter leaves the
// line and hears nothing, or Ready is called once and the block is its own.
func TestCancelRaces(t *testing.T) {
	p := newPool(t, MinBlock, MinBlock)
	var won, lost int
	for range 3000 {
		b := mustGet(t, p, 1)
		ready := make(chan struct{}, 2)
		w := &Waiter{Ready: func(*Waiter) { ready <- struct{}{} }}
		if p.GetOrWait(1, w) {
			t.Fatal("a block of a pool that has none")
		}
		var wg sync.WaitGroup
		wg.Go(func() { p.Put(b) })
		cancelled := p.Cancel(w)
		if cancelled {
			won++
		} else {
			<-ready
			lost++
			p.Put(&w.Buf)
		}
		wg.Wait()
		if len(ready) > 0 || p.Free() != p.Size() {
			t.Fatalf("cancelled %v: %d more calls of Ready, %d of %d bytes free", cancelled, len(ready), p.Free(), p.Size())
		}
	}
	t.Logf("%d cancelled, %d served", won, lost)
}

// Protects those who wait with a context: it ends the wait, and no block is lost.
func TestGetContext(t *testing.T) {
	p := newPool(t, MinBlock, MinBlock)
	b := mustGet(t, p, 1)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(5*time.Millisecond, cancel)
	var got Buf
	if err := p.Get(ctx, 1, &got); !errors.Is(err, context.Canceled) || got.Data != nil {
		t.Fatalf("get with a context that ends: error %v", err)
	}
	time.AfterFunc(5*time.Millisecond, func() { p.Put(b) })
	if err := p.Get(context.Background(), 100, &got); err != nil || len(got.Data) != 100 {
		t.Fatalf("get of what comes later: %d bytes, error %v", len(got.Data), err)
	}
	p.Put(&got)
	if err := p.Get(ctx, 1, &got); err != nil { // there is one, so nobody has to wait
		t.Fatal(err)
	}
	p.Put(&got)
}

// Protects the pool under all its users at once: nobody finds another's bytes in
// his block, and all of it comes back.
func TestConcurrent(t *testing.T) {
	p := newPool(t, 64*MinBlock, 16*MinBlock)
	var wg sync.WaitGroup
	var lent, givenUp atomic.Int64
	for g := range byte(8) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(7, uint64(g)))
			for range 400 {
				ctx, cancel := context.WithCancel(context.Background())
				if rng.IntN(4) == 0 {
					time.AfterFunc(time.Duration(rng.IntN(50))*time.Microsecond, cancel)
				}
				var b Buf
				err := p.Get(ctx, 1+rng.IntN(p.MaxBlock()), &b)
				cancel()
				if err != nil {
					givenUp.Add(1)
					continue
				}
				lent.Add(1)
				fill(b.Data, g+1)
				if rng.IntN(3) == 0 {
					time.Sleep(time.Duration(rng.IntN(30)) * time.Microsecond)
				}
				for i, c := range b.Data {
					if c != g+1 {
						t.Errorf("byte %d of a block of goroutine %d is %d", i, g+1, c)
						break
					}
				}
				p.Put(&b)
			}
		})
	}
	wg.Wait()
	if p.Free() != p.Size() {
		t.Errorf("%d of %d bytes are back", p.Free(), p.Size())
	}
	t.Logf("%d blocks lent, %d requests given up", lent.Load(), givenUp.Load())
}

// Protects memory on loan from being unmapped, and those who come too late.
func TestClose(t *testing.T) {
	p := newPool(t, 2*MinBlock, 2*MinBlock)
	b := mustGet(t, p, 1)
	if err := p.Close(); !errors.Is(err, verbs.ErrBusy) {
		t.Fatalf("close with a block on loan: %v", err)
	}
	b.Data[0] = 1 // it is still there
	var served []string
	w := inLine(t, p, 2*MinBlock, "late", &served)
	if err := p.Close(); !errors.Is(err, verbs.ErrBusy) {
		t.Fatalf("close with a waiter: %v", err)
	}
	p.Cancel(w)
	p.Put(b)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); !errors.Is(err, ErrClosed) {
		t.Errorf("close again: %v", err)
	}
	if p.TryGet(1, b) {
		t.Error("a closed pool has lent a block")
	}
	if err := p.Get(t.Context(), 1, b); !errors.Is(err, ErrClosed) {
		t.Errorf("get from a closed pool: %v", err)
	}
}

// Protects from mistakes that would otherwise destroy data: they panic.
func TestMisuse(t *testing.T) {
	p := newPool(t, 2*MinBlock, 2*MinBlock)
	b := mustGet(t, p, 2*MinBlock)
	w := &Waiter{Ready: func(*Waiter) {}}
	p.GetOrWait(1, w)
	var again Buf
	for name, f := range map[string]func(){
		"0 bytes":             func() { p.TryGet(0, &again) },
		"a negative number":   func() { p.TryGet(-1, &again) },
		"more than the most":  func() { p.GetOrWait(2*MinBlock+1, &Waiter{}) },
		"twice in line":       func() { p.GetOrWait(1, w) },
		"what was never lent": func() { p.Put(&again) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
	p.Cancel(w)
	p.Put(b)
	func() {
		defer func() {
			if r := recover(); fmt.Sprint(r) != "bufpool: buffer returned twice" {
				t.Errorf("returned twice: %v", r)
			}
		}()
		p.Put(b)
	}()
}

// Protects the way of one I/O: neither lending nor waiting allocates.
func TestNoAllocs(t *testing.T) {
	p := newPool(t, 64*MinBlock, 64*MinBlock)
	var a, b Buf
	if n := testing.AllocsPerRun(1000, func() {
		p.TryGet(1, &a)
		p.TryGet(30000, &b)
		p.Put(&a)
		p.Put(&b)
	}); n != 0 {
		t.Errorf("TryGet and Put: %v allocations", n)
	}
	served := 0
	w, v := &Waiter{}, &Waiter{}
	ready := func(*Waiter) { served++ }
	w.Ready, v.Ready = ready, ready
	if n := testing.AllocsPerRun(1000, func() {
		p.TryGet(p.MaxBlock(), &a)
		p.GetOrWait(1, w)
		p.GetOrWait(1, v)
		p.Put(&a)
		p.Put(&w.Buf)
		p.Put(&v.Buf)
	}); n != 0 || served == 0 {
		t.Errorf("GetOrWait and Put: %v allocations, %d served", n, served)
	}
}
