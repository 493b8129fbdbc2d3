package bufpool

import "testing"

// Protects users from each other: one that gives nothing back, and asks for more and
// more, leaves room, and so do ten of them. What they still wait for holds up nobody.
func TestAccountsThatGiveNothingBack(t *testing.T) {
	const block = 64 * MinBlock
	p := newPool(t, 64*block, block)
	good := p.Account()
	var bufs []*Buf
	var waiters []*Waiter
	for hogs, wantFree := range []int{64, 43, 29, 19, 13, 9, 6, 4, 3, 2, 1} {
		if got := p.Free() / block; got != wantFree {
			t.Fatalf("%d accounts leave %d blocks, want %d", hogs, got, wantFree)
		}
		for range 10 {
			var b Buf
			if !good.TryGet(block, &b) {
				t.Fatalf("%d accounts leave %d blocks, but another gets none", hogs, wantFree)
			}
			p.Put(&b)
		}
		hog := p.Account()
		for range 70 {
			w := &Waiter{Ready: func(*Waiter) { t.Error("more was lent though nothing came back") }}
			if hog.GetOrWait(block, w) {
				bufs = append(bufs, &w.Buf)
			} else {
				waiters = append(waiters, w)
			}
		}
	}
	for _, w := range waiters {
		p.Cancel(w)
	}
	for _, b := range bufs {
		p.Put(b)
	}
}

// Protects the pace of one user from the length of another's line: lines are served in
// turns.
func TestAccountsTakeTurns(t *testing.T) {
	p := newPool(t, 4*MinBlock, 4*MinBlock)
	all := mustGet(t, p, 4*MinBlock)
	var served []string
	waiters := make(map[string]*Waiter)
	busy, quiet := p.Account(), p.Account()
	for _, name := range []string{"busy 1", "busy 2", "busy 3", "quiet"} {
		w := &Waiter{Ready: func(*Waiter) { served = append(served, name) }}
		waiters[name] = w
		a := busy
		if name == "quiet" {
			a = quiet
		}
		if a.GetOrWait(4*MinBlock, w) {
			t.Fatalf("%s did not have to wait", name)
		}
	}
	p.Put(all)
	for i, want := range []string{"busy 1", "quiet", "busy 2", "busy 3"} {
		if len(served) != i+1 || served[i] != want {
			t.Fatalf("served %v, want %s at %d", served, want, i)
		}
		p.Put(&waiters[want].Buf)
	}
}
