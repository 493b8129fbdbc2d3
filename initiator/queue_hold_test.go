package initiator

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"

	"rbd/wire"
)

var errCable = errors.New("cable out")

// lose ends the connection; requests are held.
func (f *fixture) lose(t *testing.T) {
	t.Helper()
	f.q.hold()
	f.q.cut(errCable)
	if err := f.q.end(errCable); err != nil {
		t.Fatal(err)
	}
	f.take()
}

// reconnect makes another connection for the queue, and returns it.
func (f *fixture) reconnect(t *testing.T, slots int) *fakeConn {
	t.Helper()
	c := newFakeConn()
	c.regions = append(c.regions, f.mr.(*fakeMR)) // the pool stays
	p := f.params
	p.pd, p.slots = fakePD{c}, slots
	if err := f.q.open(context.Background(), c, p); err != nil {
		t.Fatal(err)
	}
	return c
}

func offsets(sqes []wire.SQE) (all []uint64) {
	for i := range sqes {
		all = append(all, sqes[i].SLBA()<<9)
	}
	return all
}

// Protects requests over a loss: those that are out, those that wait for a slot and
// those that come while there is no connection are all sent once again, in the order
// of their submission and by the new connection's keys and identifiers, and come
// back once.
func TestQueueHold(t *testing.T) {
	for _, slots := range []int{1, 2, 16} { // of the new connection
		f := newFixture(t, 4, 4096)
		o := newCollector()
		var reqs []*Request
		for i := range 10 {
			reqs = append(reqs, f.req(o, OpWrite, uint64(i)*512, 512))
		}
		f.q.Submit(reqs[:8])
		sent := f.take()
		f.answer(ok(sent[2]), ok(sent[0])) // now 4, 1, 5, 3 are out in some order of slots
		o.wait(t, 2)
		f.lose(t)
		f.q.Submit(reqs[8:])
		o.none(t)
		c := f.reconnect(t, slots)
		if n := len(c.take()); n != 0 {
			t.Fatalf("%d capsules before the queue was to resume", n)
		}
		f.q.resume(nil)
		var order []wire.SQE
		for len(order) < 8 {
			s := c.take()
			if len(s) == 0 || len(s) > slots {
				t.Fatalf("%d capsules, after %d of 8", len(s), len(order))
			}
			order = append(order, s...)
			for i := range s {
				c.answer(ok(s[i]))
			}
		}
		if got, want := offsets(order), []uint64{512, 1536, 2048, 2560, 3072, 3584, 4096, 4608}; !slices.Equal(got, want) {
			t.Errorf("%d slots: sent in the order %v, want %v", slots, got, want)
		}
		o.wait(t, 8)
		o.none(t)
		for _, r := range o.done {
			if r.Err != nil {
				t.Error(r.Err)
			}
		}
	}
}

// Protects a request in parts: what was answered is not sent again.
func TestQueueHoldParts(t *testing.T) {
	f := newFixture(t, 4, 0)
	o := newCollector()
	f.q.Submit([]*Request{f.req(o, OpRead, 0, 192<<10)})
	f.answer(ok(f.take()[0]))
	f.lose(t)
	c := f.reconnect(t, 4)
	f.q.resume(nil)
	for _, want := range []uint64{64 << 10, 128 << 10} {
		s := c.take()
		if got := offsets(s); !slices.Equal(got, []uint64{want}) {
			t.Fatalf("offsets %v, want %d", got, want)
		}
		c.answer(ok(s[0]))
	}
	o.wait(t, 1)
}

// Protects the promise of FUA for a trim, whose command has none: it is answered after a
// flush, and when the connection is lost before that, all is done again, for the target
// may have lost it.
func TestQueueDurableTrim(t *testing.T) {
	f := newFixture(t, 4, 0)
	o := newCollector()
	trim := f.req(o, OpTrim, 0, 192<<10) // two commands
	trim.FUA = true
	plain := f.req(o, OpTrim, 0, 512)
	c := f.fakeConn
	expect := func(op wire.IOOpcode) wire.SQE {
		t.Helper()
		s := c.take()
		if len(s) != 1 || s[0].Opcode != uint8(op) {
			t.Fatalf("%d commands were sent, %+v; want %v", len(s), s, op)
		}
		o.none(t)
		return s[0]
	}
	f.q.Submit([]*Request{trim})
	for answered := range 3 { // before the loss
		for range answered {
			c.answer(ok(expect(wire.IODSM)))
		}
		if answered == 2 {
			expect(wire.IOFlush)
		}
		f.lose(t)
		c = f.reconnect(t, 4)
		f.q.resume(nil)
	}
	c.answer(ok(expect(wire.IODSM)))
	c.answer(ok(expect(wire.IODSM)))
	c.answer(ok(expect(wire.IOFlush)))
	o.wait(t, 1)
	if trim.Err != nil {
		t.Error(trim.Err)
	}
	f.q.Submit([]*Request{trim}) // it may be used again, and fail
	c.answer(ok(expect(wire.IODSM)))
	c.answer(ok(expect(wire.IODSM)))
	refused := ok(expect(wire.IOFlush))
	refused.Status = wire.StatusInternalError
	c.answer(refused)
	o.wait(t, 1)
	var failure *StatusError
	if !errors.As(trim.Err, &failure) || failure.Op != OpFlush {
		t.Errorf("got %v, want the error of the flush", trim.Err)
	}
	f.q.Submit([]*Request{plain})
	c.answer(ok(expect(wire.IODSM)))
	o.wait(t, 1)
}

// Protects the disk behind the number: what was held is compared with the namespace
// as it is after the loss.
func TestQueueResumeChecks(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*NamespaceInfo) *NamespaceInfo
		want   []error // of a write at the end, and of a read at the beginning
	}{
		{"as before", func(i *NamespaceInfo) *NamespaceInfo { return i }, []error{nil, nil}},
		{"gone", func(*NamespaceInfo) *NamespaceInfo { return nil }, []error{ErrNoNamespace, ErrNoNamespace}},
		{"smaller", func(i *NamespaceInfo) *NamespaceInfo { i.Size /= 2; return i }, []error{ErrOutOfRange, nil}},
		{"read-only", func(i *NamespaceInfo) *NamespaceInfo { i.ReadOnly = true; return i }, []error{ErrReadOnly, nil}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, 4, 0)
			o := newCollector()
			reqs := []*Request{f.req(o, OpWrite, 1<<20-512, 512), f.req(o, OpRead, 0, 512)}
			f.q.Submit(reqs)
			f.lose(t)
			info := f.ns.get(1).Info()
			table := map[uint32]*Namespace{}
			if now := tc.change(&info); now != nil {
				table[1] = &Namespace{nsid: 1}
				table[1].info.Store(now)
			}
			f.ns.m.Store(&table)
			c := f.reconnect(t, 4)
			f.q.resume(nil)
			for _, s := range c.take() {
				c.answer(ok(s))
			}
			o.wait(t, 2)
			for i, r := range reqs {
				if !errors.Is(r.Err, tc.want[i]) {
					t.Errorf("request %d: %v, want %v", i, r.Err, tc.want[i])
				}
			}
		})
	}
}

// Protects from requests that nobody waits for: a write that was given up must not
// be sent after the loss, over what its caller has written since.
func TestQueueHoldUnwanted(t *testing.T) {
	f := newFixture(t, 1, 4096)
	submit := func(off uint64) *call {
		cl := newCall()
		cl.req = *f.req(nil, OpWrite, off, 512)
		cl.start(f.q)
		return cl
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	out, waiting := submit(0), submit(512) // the queue has one slot
	if err := out.wait(over); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	f.lose(t)
	if err := waiting.wait(over); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that is held: %v", err)
	}
	inPlace := newCall()
	inPlace.req = *f.req(nil, OpWrite, 1024, 512)
	inPlace.runInPlace(over, f.q)
	if !errors.Is(inPlace.req.Err, context.Canceled) {
		t.Errorf("a request with its caller's buffer: %v", inPlace.req.Err)
	}
	late := submit(1536)
	late.quit.Store(true) // its caller will find it in neither line
	kept := submit(2048)
	c := f.reconnect(t, 1)
	f.q.resume(nil)
	s := c.take()
	if got := offsets(s); !slices.Equal(got, []uint64{2048}) {
		t.Fatalf("offsets %v are sent", got)
	}
	c.answer(ok(s[0]))
	if err := kept.wait(context.Background()); err != nil || kept.req.Err != nil {
		t.Errorf("got %v, %v", err, kept.req.Err)
	}
}

// Protects from the requests of an owner whose client has gone: what is out may be
// answered, but neither is it sent again after a loss nor does anything wait for a
// connection. Those of others do.
func TestQueueHoldAbandoned(t *testing.T) {
	f := newFixture(t, 2, 4096)
	o := newCollector()
	var gone, there atomic.Bool
	req := func(off uint64, abandoned *atomic.Bool) *Request {
		r := f.req(o, OpWrite, off, 512)
		r.Abandoned = abandoned
		return r
	}
	answered, out, waiting, kept := req(0, &gone), req(512, &gone), req(1024, &gone), req(1536, &there)
	f.q.Submit([]*Request{answered, out, waiting, kept})
	gone.Store(true)
	f.q.dropUnwanted()
	o.none(t) // the connection is sound
	f.answer(ok(f.take()[0]))
	o.wait(t, 1)
	f.lose(t)
	o.wait(t, 2)
	late := req(2048, &gone)
	f.q.Submit([]*Request{late})
	o.wait(t, 1)
	held := req(2560, &there)
	f.q.Submit([]*Request{held})
	f.q.dropUnwanted()
	o.none(t)
	c := f.reconnect(t, 2)
	f.q.resume(nil)
	s := c.take()
	if got := offsets(s); !slices.Equal(got, []uint64{1536, 2560}) {
		t.Fatalf("offsets %v are sent", got)
	}
	f.q.hold()
	last := req(3072, &there)
	f.q.Submit([]*Request{last})
	there.Store(true)
	f.q.dropUnwanted()
	o.wait(t, 1)
	c.answer(ok(s[0]), ok(s[1]))
	o.wait(t, 2)
	for r, want := range map[*Request]error{answered: nil, out: errCable, waiting: errCable, late: ErrConnectionLost, kept: nil, held: nil, last: ErrConnectionLost} {
		if !errors.Is(r.Err, want) {
			t.Errorf("request at %d: %v, want %v", r.Offset, r.Err, want)
		}
	}
}

// Protects the end of waiting: all that is held ends with the reason, what comes
// later too, and the queue works again afterwards. Commands of the controller pass
// in the meantime.
func TestQueueGiveUp(t *testing.T) {
	f := newFixture(t, 2, 0)
	o := newCollector()
	var reqs []*Request
	for i := range 5 {
		reqs = append(reqs, f.req(o, OpRead, uint64(i)*512, 512))
	}
	f.q.Submit(reqs[:3])
	f.lose(t)
	f.q.Submit(reqs[3:])
	over := errors.New("too long")
	f.q.giveUp(over)
	o.wait(t, 5)
	f.q.Submit([]*Request{f.req(o, OpFlush, 0, 0)})
	o.wait(t, 1)
	for _, r := range o.done {
		if !errors.Is(r.Err, over) {
			t.Errorf("got %v", r.Err)
		}
	}
	c := f.reconnect(t, 2)
	cmd := &Request{Op: opCommand, Owner: o, cmd: &command{sqe: wire.KeepAliveSQE()}}
	f.q.Submit([]*Request{cmd})
	c.answer(ok(c.take()[0]))
	o.wait(t, 1)
	if cmd.Err != nil {
		t.Error(cmd.Err)
	}
	f.q.resume(nil)
	last := f.req(o, OpFlush, 0, 0)
	f.q.Submit([]*Request{last})
	c.answer(ok(c.take()[0]))
	o.wait(t, 1)
	if last.Err != nil {
		t.Error(last.Err)
	}
	o.none(t)
}

// Protects the loss time of each request: one that is the cause of the losses ends
// at last, the others go on.
func TestQueueHoldPatience(t *testing.T) {
	f := newFixture(t, 4, 0)
	o := newCollector()
	f.q.ctl.lose = func(r *Request) bool { r.lost++; return r.lost <= 3 }
	poison := f.req(o, OpFlush, 0, 0)
	f.q.Submit([]*Request{poison})
	for range 3 {
		f.lose(t)
		f.fakeConn = f.reconnect(t, 4)
		f.q.resume(nil)
		o.none(t)
	}
	f.lose(t)
	o.wait(t, 1)
	if !errors.Is(poison.Err, errCable) {
		t.Errorf("got %v", poison.Err)
	}
	f.fakeConn = f.reconnect(t, 4)
	f.q.resume(nil)
}
