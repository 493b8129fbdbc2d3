package initiator

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"rbd/target"
	"rbd/wire"
)

// ownerFunc is an owner that is a function; its requests say which.
type ownerFunc struct{ complete func([]*Request) }

func (o *ownerFunc) Complete(batch []*Request) { o.complete(batch) }

// viaPair makes a queue f.q without a connection, whose work g.q does.
func viaPair(t *testing.T, slots int, inCapsule uint64) (f, g *fixture) {
	f, g = newFixture(t, slots, inCapsule), newFixture(t, slots, inCapsule)
	g.regions = append(g.regions, f.mr.(*fakeMR))
	f.lose(t)
	f.q.resume(g.q)
	return f, g
}

// Protects queues that have no connection after a reconnect: their requests, those
// that were held and new ones, go by another queue, and can be taken back there.
func TestQueueVia(t *testing.T) {
	f, g := newFixture(t, 1, 0), newFixture(t, 2, 0)
	g.regions = append(g.regions, f.mr.(*fakeMR))
	o := newCollector()
	held := f.req(o, OpRead, 512, 512)
	f.q.Submit([]*Request{f.req(o, OpRead, 0, 512), held})
	f.lose(t)
	f.q.resume(g.q)
	s := g.take()
	if got := offsets(s); !slices.Equal(got, []uint64{0, 512}) {
		t.Fatalf("offsets %v", got)
	}
	if !f.q.idle() {
		t.Error("the queue without a connection is not idle")
	}
	cl := newCall()
	cl.req = *f.req(nil, OpRead, 1024, 512)
	cl.start(f.q)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if err := cl.wait(over); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	g.answer(ok(s[0]), ok(s[1]))
	o.wait(t, 2)
	if n := len(g.take()); n != 0 {
		t.Errorf("%d capsules of a request that was taken back", n)
	}
	g.lose(t) // both are held by themselves again
	f.q.hold()
	f.q.Submit([]*Request{f.req(o, OpRead, 0, 512)})
	f.fakeConn, g.fakeConn = f.reconnect(t, 1), g.reconnect(t, 1)
	f.q.resume(nil)
	g.q.resume(nil)
	if n := len(f.take()) + 10*len(g.take()); n != 1 {
		t.Errorf("sent by the wrong queue: %d", n)
	}
	f.answer(wire.CQE{})
	o.wait(t, 1)
}

// Protects owners from being called twice at a time when a queue has a connection
// of its own again, and some of its requests still go by the queue that did its work.
func TestQueueViaCompletesApart(t *testing.T) {
	f, g := viaPair(t, 4, 0)
	var inside atomic.Int32
	entered, leave := make(chan struct{}, 2), make(chan struct{})
	o := &ownerFunc{func([]*Request) {
		if inside.Add(1) > 1 {
			t.Error("an owner is called twice at a time")
		}
		entered <- struct{}{}
		<-leave
		inside.Add(-1)
	}}
	f.q.Submit([]*Request{f.req(o, OpRead, 0, 512)}) // goes by g
	f.q.hold()
	f.fakeConn = f.reconnect(t, 4)
	f.q.resume(nil)
	f.q.Submit([]*Request{f.req(o, OpRead, 512, 512)})
	over := make(chan struct{}, 3)
	by := func(end func()) {
		go func() {
			end()
			over <- struct{}{}
		}()
	}
	late, early := f.take(), g.take()
	by(func() { g.answer(ok(early[0])) })
	<-entered
	by(func() { f.answer(ok(late[0])) })
	by(func() { f.q.complete([]*Request{{Owner: o, home: f.q}}) }) // as Submit does with one that it refuses
	time.Sleep(20 * time.Millisecond)
	close(leave)
	for range 3 {
		<-over
	}
}

// Protects callers whose request is held by the queue that did the work of theirs:
// when their context ends they get it back at once, and it is not sent.
func TestQueueViaWithdraw(t *testing.T) {
	f, g := viaPair(t, 4, 0)
	defer func() { f.fakeConn = f.reconnect(t, 4) }() // for its end
	over, cancel := context.WithCancel(context.Background())
	cl := newCall()
	cl.req = *f.req(nil, OpRead, 512, 512)
	back := make(chan struct{})
	go func() {
		defer close(back)
		cl.runInPlace(over, f.q)
	}()
	g.takeLater(t)
	f.q.hold()
	g.lose(t)
	cancel()
	select {
	case <-back:
		if !errors.Is(cl.req.Err, context.Canceled) {
			t.Errorf("got %v", cl.req.Err)
		}
	case <-time.After(10 * time.Second):
		t.Error("the caller waits for the next connection")
	}
	g.fakeConn = g.reconnect(t, 4)
	g.q.resume(nil)
	if n := len(g.take()); n != 0 {
		t.Errorf("%d capsules", n)
	}
}

// Protects from a deadlock: an owner that submits within Complete, by another
// queue's connection, finds answers there that are its own.
func TestQueueViaSubmitInComplete(t *testing.T) {
	f, g := viaPair(t, 4, 4096)
	defer func() { f.fakeConn = f.reconnect(t, 4) }() // for its end
	g.lag = true
	back := make(chan *Request, 4)
	var write, read, next *Request
	o := &ownerFunc{func(batch []*Request) {
		for _, r := range batch {
			if r == read {
				g.release() // the SEND of the write has completed: it is over
				f.q.Submit([]*Request{next})
			}
			back <- r
		}
	}}
	write, read, next = f.req(o, OpWrite, 0, 512), f.req(o, OpRead, 512, 512), f.req(o, OpRead, 1024, 512)
	f.q.Submit([]*Request{write, read})
	s := g.take()
	go g.answer(ok(s[0]), ok(s[1]))
	for _, want := range []*Request{read, write} {
		select {
		case r := <-back:
			if r != want {
				t.Errorf("%v came back, want %v", r.Op, want.Op)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%v did not come back", want.Op)
		}
	}
	g.release()
	g.answer(ok(g.take()[0]))
	if r := <-back; r != next || r.Err != nil {
		t.Errorf("%v: %v", r.Op, r.Err)
	}
}

// Protects owners while a target grants fewer queues, and more again: each request
// comes back once, and no owner is called twice at a time.
func TestReconnectQueuesComeAndGo(t *testing.T) {
	a := newAway(t)
	disk := disk1(ram(t, 1<<20, 512))
	a.serve(target.Config{IOQueues: 2}, anyHost, disk)
	c := a.connect(Options{Queues: 2})
	q := c.Queues()[1]
	var inside atomic.Int32
	back := make(chan *Request, 256)
	o := &ownerFunc{func(batch []*Request) {
		if inside.Add(1) > 1 {
			t.Error("an owner is called twice at a time")
		}
		for _, r := range batch {
			back <- r
		}
		inside.Add(-1)
	}}
	reqs := make([]*Request, 240)
	for i := range reqs {
		reqs[i] = &Request{Op: OpRead, NSID: 1, Offset: uint64(i) * 512, Length: 512, Owner: o}
		if err := c.Buffers().Get(short(t), 512, &reqs[i].Buf); err != nil {
			t.Fatal(err)
		}
		defer c.Buffers().Put(&reqs[i].Buf)
	}
	for range 5 {
		a.serve(target.Config{IOQueues: 1}, anyHost, disk)
		a.state(c, StateLive)
		q.Submit(reqs[:120]) // by queue 1
		a.kill()
		q.Submit(reqs[120:]) // held by queue 2
		a.serve(target.Config{IOQueues: 2}, anyHost, disk)
		seen := make(map[*Request]bool)
		for range reqs {
			select {
			case r := <-back:
				if r.Err != nil || seen[r] {
					t.Errorf("%v at %d: %v, twice %v", r.Op, r.Offset, r.Err, seen[r])
				}
				seen[r] = true
			case <-time.After(10 * time.Second):
				t.Fatalf("%d of %d requests came back", len(seen), len(reqs))
			}
		}
	}
}
