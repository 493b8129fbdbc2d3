package verbstest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rbd/verbs"
)

var cqHandlerCases = []Case{
	{"HandlerOrder", testHandlerOrder},
	{"HandlerSerialized", testHandlerSerialized},
	{"HandlerBatches", testHandlerBatches},
	{"HandlerPosts", testHandlerPosts},
	{"HandlerNotOnCaller", testHandlerNotOnCaller},
	{"HandlerNotOnCallerFlush", testHandlerNotOnCallerFlush},
	{"HandlerDestroyWaits", testHandlerDestroyWaits},
	{"HandlerNoneAfterDestroy", testHandlerNoneAfterDestroy},
}

// Protects the completions of a handled CQ: all come, in order, and none is left
// for Poll.
func testHandlerOrder(t *testing.T, e *Env) {
	const rounds, n = 50, 20
	ids := make(chan uint64, rounds*n)
	p := e.Pair(func(_, s *SideOpts) {
		s.OnRecv = func(batch []verbs.WC) {
			if len(batch) == 0 {
				t.Error("the handler was called without completions")
			}
			for _, wc := range batch {
				ids <- wc.ID
			}
		}
	})
	var want uint64
	for range rounds {
		p.Server.PostEmptyRecvs(want, n)
		for i := range uint64(n) {
			p.Client.Post(verbs.SendWR{ID: i, Flags: verbs.SendSignaled})
		}
		for i := range uint64(n) {
			p.Client.Send.OK(i, verbs.WCSend)
		}
		e.Within("the handler gets the batch", func() {
			for range n {
				if id := <-ids; id != want {
					t.Errorf("completion of request %d, want %d", id, want)
				}
				want++
			}
		})
		if got := p.Server.Recv.CQ.Poll(make([]verbs.WC, 4)); got != 0 {
			t.Fatalf("Poll of a handled CQ returned %d completions", got)
		}
	}
}

// Protects handlers from locks: calls of one CQ never overlap, even if many QPs
// use it.
func testHandlerSerialized(t *testing.T, e *Env) {
	const pairs, n = 4, 50
	var inside, calls, total atomic.Int32
	handler := func(batch []verbs.WC) {
		if inside.Add(1) != 1 {
			t.Error("the handler runs twice at a time")
		}
		calls.Add(1)
		time.Sleep(50 * time.Microsecond)
		total.Add(int32(len(batch)))
		inside.Add(-1)
	}
	shared := e.Queue("shared CQ", Handled, min(2*pairs*n, e.Device.Attr().MaxCQE), handler)
	var all []*Pair
	for range pairs {
		all = append(all, e.Pair(func(c, s *SideOpts) { s.RecvQueue, s.SendQueue, c.SendQueue = shared, shared, shared }))
	}
	for _, p := range all {
		p.Server.PostEmptyRecvs(0, n)
	}
	for range n {
		for _, p := range all {
			p.Client.Post(verbs.SendWR{Flags: verbs.SendSignaled})
		}
	}
	e.Eventually("all completions are handled", func() bool { return total.Load() == 2*pairs*n })
	t.Logf("%d completions in %d calls", total.Load(), calls.Load())
}

// Protects the cost per completion: what gathers while the handler is busy comes
// in few calls.
func testHandlerBatches(t *testing.T, e *Env) {
	const n = 60
	var calls, total atomic.Int32
	entered, release := make(chan struct{}), make(chan struct{})
	p := e.Pair(func(_, s *SideOpts) {
		s.OnRecv = func(batch []verbs.WC) {
			if calls.Add(1) == 1 {
				close(entered)
				<-release
			}
			total.Add(int32(len(batch)))
		}
	})
	p.Server.PostEmptyRecvs(0, n)
	p.Client.Post(verbs.SendWR{})
	e.Within("the handler is called", func() { <-entered })
	for i := range uint64(n - 1) {
		p.Client.Post(verbs.SendWR{ID: i, Flags: verbs.SendSignaled})
	}
	time.Sleep(calm)
	close(release)
	e.Eventually("all completions are handled", func() bool { return total.Load() == n })
	if c := calls.Load(); c > n/2 {
		t.Errorf("%d completions came in %d calls", n, c)
	}
}

// Protects queue owners that run on the handler alone: it posts receives and
// sends, on both sides, while it runs.
func testHandlerPosts(t *testing.T, e *Env) {
	const rounds = 2000
	var client, server *Side
	var ready sync.WaitGroup
	ready.Add(1)
	done := make(chan struct{})
	var count atomic.Int32
	bounce := func(s **Side) func([]verbs.WC) {
		return func(batch []verbs.WC) {
			ready.Wait()
			for _, wc := range batch {
				if wc.Status != verbs.WCSuccess {
					return // the end of the case
				}
				if count.Add(1) == rounds {
					close(done)
					return
				}
				if err := (*s).QP.PostRecv([]verbs.RecvWR{{}}); err != nil {
					t.Errorf("post a receive in the handler: %v", err)
				}
				if err := (*s).QP.PostSend([]verbs.SendWR{{Flags: verbs.SendSignaled}}); err != nil {
					t.Errorf("post a send in the handler: %v", err)
				}
			}
		}
	}
	sent := func([]verbs.WC) {} // who takes the completion frees the slot of the queue
	p := e.Pair(func(c, s *SideOpts) {
		c.OnRecv, s.OnRecv, c.OnSend, s.OnSend = bounce(&client), bounce(&server), sent, sent
	})
	client, server = p.Client, p.Server
	ready.Done()
	for _, s := range []*Side{client, server} {
		s.PostEmptyRecvs(0, 8)
	}
	client.Post(verbs.SendWR{})
	e.Within("messages go back and forth", func() { <-done })
}

// Protects programs that post with a lock held which their handler takes too:
// no handler runs on the goroutine of PostSend, PostRecv, Modify or Disconnect.
func testHandlerNotOnCaller(t *testing.T, e *Env) {
	const rounds = 200
	var mu sync.Mutex
	var total atomic.Int32
	handler := func(batch []verbs.WC) {
		mu.Lock()
		defer mu.Unlock()
		total.Add(int32(len(batch)))
	}
	p := e.PairOf(func(o *SideOpts) { o.OnSend, o.OnRecv = handler, handler })
	e.Within("post with a lock held", func() {
		for i := range int32(rounds) {
			mu.Lock()
			for _, s := range []*Side{p.Client, p.Server} {
				if err := s.QP.PostRecv([]verbs.RecvWR{{}}); err != nil {
					t.Error(err)
				}
			}
			for _, s := range []*Side{p.Client, p.Server} {
				if err := s.QP.PostSend([]verbs.SendWR{{Flags: verbs.SendSignaled}}); err != nil {
					t.Error(err)
				}
			}
			mu.Unlock()
			for total.Load() < 4*(i+1) {
				time.Sleep(20 * time.Microsecond)
			}
		}
	})
}

// Protects the same at the end of a connection, when work is flushed.
func testHandlerNotOnCallerFlush(t *testing.T, e *Env) {
	var mu sync.Mutex
	var total atomic.Int32
	handler := func(batch []verbs.WC) {
		mu.Lock()
		defer mu.Unlock()
		total.Add(int32(len(batch)))
	}
	locked := func(f func() error) {
		mu.Lock()
		defer mu.Unlock()
		if err := f(); err != nil {
			t.Error(err)
		}
	}
	p := e.PairOf(func(o *SideOpts) { o.OnSend, o.OnRecv = handler, handler })
	p.Client.PostEmptyRecvs(0, 10)
	p.Server.PostEmptyRecvs(0, 10)
	e.Within("end with a lock held", func() {
		locked(func() error { return p.Client.QP.Modify(verbs.QPStateERR) })
		locked(p.Server.ID.Disconnect)
	})
	p.Ended()
	e.Eventually("20 receives are flushed", func() bool { return total.Load() == 20 })
	e.Within("post in ERR with a lock held", func() {
		locked(func() error { return p.Client.QP.PostRecv(make([]verbs.RecvWR, 3)) })
		locked(func() error { return p.Client.QP.PostSend(make([]verbs.SendWR, 3)) })
	})
	e.Eventually("6 more requests are flushed", func() bool { return total.Load() == 26 })
}

// Protects what a handler uses from being freed under it: Destroy of the CQ
// returns after the call in progress.
func testHandlerDestroyWaits(t *testing.T, e *Env) {
	entered, release := make(chan struct{}), make(chan struct{})
	var left atomic.Bool
	p := e.Pair(func(_, s *SideOpts) {
		s.OnRecv = func([]verbs.WC) {
			close(entered)
			<-release
			left.Store(true)
		}
	})
	p.Server.PostEmptyRecvs(0, 1)
	p.Client.Post(verbs.SendWR{})
	e.Within("the handler is called", func() { <-entered })
	destroyed := e.Go(func() error {
		p.Server.Close()
		err := p.Server.Recv.CQ.Destroy()
		if !left.Load() {
			t.Error("the CQ is destroyed, its handler still runs")
		}
		return err
	})
	time.Sleep(calm)
	close(release)
	if err := destroyed(); err != nil {
		t.Error(err)
	}
}

// Protects from late calls: after Destroy of the CQ its handler is not called,
// even if completions were on their way.
func testHandlerNoneAfterDestroy(t *testing.T, e *Env) {
	for range 20 {
		var gone atomic.Bool
		p := e.Pair(func(_, s *SideOpts) {
			s.OnRecv = func([]verbs.WC) {
				if gone.Load() {
					t.Error("the handler is called after Destroy")
				}
			}
		})
		p.Server.PostEmptyRecvs(0, 30)
		for range 30 {
			p.Client.Post(verbs.SendWR{})
		}
		p.Server.Close()
		e.Destroy("CQ", p.Server.Recv.CQ.Destroy)
		gone.Store(true)
	}
}
