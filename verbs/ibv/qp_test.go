package ibv

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"rbd/verbs"
)

// Protects the record of a request: the numbers of libibverbs, the key to
// invalidate in its place, and no SGE of length 0, which means 2 GiB to some.
func TestSendRecords(t *testing.T) {
	b := newBench(t, nil).connect()
	sges := []verbs.SGE{{Addr: 0x1000, Length: 10, LKey: 1}, {Addr: 0x2000, Length: 0, LKey: 2}, {Addr: 0x3000, Length: 30, LKey: 3}}
	err := b.qp.PostSend([]verbs.SendWR{
		{ID: 11, Opcode: verbs.WRSend, Flags: verbs.SendSignaled | verbs.SendSolicited, SGEs: sges},
		{ID: 12, Opcode: verbs.WRSendWithInv, Flags: verbs.SendFence, InvalidateRKey: 77},
		{ID: 13, Opcode: verbs.WRRDMAWrite, Flags: verbs.SendInline, SGEs: sges[:1], RemoteAddr: 0x9000, RKey: 9},
		{ID: 14, Opcode: verbs.WRRDMARead, SGEs: sges[2:], RemoteAddr: 0x8000, RKey: 8},
	})
	if err != nil {
		t.Fatal(err)
	}
	key := uint64(b.qp.key) << 32
	want := []sendRecord{
		{id: key, opcode: 2, flags: 6, sge: 0, sges: 2},
		{id: key | 1, opcode: 9, flags: 1, sge: 2, rkey: 77},
		{id: key | 2, opcode: 0, flags: 8, sge: 2, sges: 1, remoteAddr: 0x9000, rkey: 9},
		{id: key | 3, opcode: 4, sge: 3, sges: 1, remoteAddr: 0x8000, rkey: 8},
	}
	if d := cmp.Diff(want, b.lib.sent, cmp.AllowUnexported(sendRecord{})); d != "" {
		t.Errorf("records (-want +got)\n%s", d)
	}
	if d := cmp.Diff([]verbs.SGE{sges[0], sges[2], sges[0], sges[2]}, b.lib.sentSGEs); d != "" {
		t.Errorf("SGEs (-want +got)\n%s", d)
	}
	if b.lib.posts != 1 {
		t.Errorf("%d crossings for one list", b.lib.posts)
	}
	b.lib.done(b.cq, key|3, verbs.WCSuccess, 2)
	got := b.poll()
	if len(got) != 1 || got[0].ID != 14 || got[0].Opcode != verbs.WCRDMARead || got[0].ByteLen != 5 || got[0].QPNum != 42 {
		t.Errorf("completion %+v", got)
	}
	if room := b.qp.sq.room(); room != 100 {
		t.Errorf("room for %d requests when the last has completed", room)
	}
}

// Protects receives: an iWARP device takes none without SGE.
func TestRecvRecords(t *testing.T) {
	for _, iwarp := range []bool{false, true} {
		b := newBench(t, func(_ *verbs.QPInitAttr, _ *verbs.CQAttr, f *fakeLibrary) { f.info.iwarp = iwarp })
		if err := b.qp.PostRecv([]verbs.RecvWR{{ID: 5}, {ID: 6, SGEs: []verbs.SGE{{Addr: 1, Length: 2, LKey: 3}}}}); err != nil {
			t.Fatal(err)
		}
		key := uint64(b.qp.key)<<32 | 1<<31
		want := []recvRecord{{id: key}, {id: key | 1, sges: 1}}
		if iwarp {
			want = []recvRecord{{id: key, sges: 1}, {id: key | 1, sge: 1, sges: 1}}
		}
		if d := cmp.Diff(want, b.lib.received, cmp.AllowUnexported(recvRecord{})); d != "" {
			t.Errorf("iWARP %v: records (-want +got)\n%s", iwarp, d)
		}
		b.lib.done(b.cq, key, verbs.WCSuccess, wcRecv)
		b.lib.done(b.cq, key|1, verbs.WCSuccess, wcRecv)
		if got := b.poll(); len(got) != 2 || got[0].ID != 5 || got[1].ID != 6 || got[1].Opcode != verbs.WCRecv {
			t.Errorf("completions %+v", got)
		}
	}
}

// Protects long lists: the rest of a list goes on in the next crossing, and the
// index of a refused request is that in the caller's list.
func TestPostLongList(t *testing.T) {
	b := newBench(t, func(a *verbs.QPInitAttr, _ *verbs.CQAttr, _ *fakeLibrary) { a.Cap.MaxSendWR = 150 }).connect()
	err := b.qp.PostSend(make([]verbs.SendWR, 200))
	var pe *verbs.PostError
	if !errors.As(err, &pe) || pe.BadWR != 150 || !errors.Is(err, verbs.ErrNoMemory) {
		t.Errorf("post 200 requests to a queue of 150: %v", err)
	}
	if len(b.lib.sent) != 150 || b.lib.posts != 3 {
		t.Errorf("%d requests in %d crossings", len(b.lib.sent), b.lib.posts)
	}
}

// Protects the account when a device takes fewer than it was given.
func TestDeviceRefuses(t *testing.T) {
	b := newBench(t, nil).connect()
	b.lib.takes, b.lib.refuses = 2, unix.ENOMEM
	err := b.qp.PostSend(make([]verbs.SendWR, 5))
	var pe *verbs.PostError
	if !errors.As(err, &pe) || pe.BadWR != 2 || !errors.Is(err, verbs.ErrNoMemory) {
		t.Errorf("a device that takes 2 of 5: %v", err)
	}
	b.lib.takes = -1
	if err := b.qp.PostSend([]verbs.SendWR{{ID: 3}}); err != nil {
		t.Fatal(err)
	}
	if got := b.lib.sent[2].id & numberMask; got != 2 {
		t.Errorf("the next request has number %d, want 2", got)
	}
}

// Protects posters from a QP that the device has put into ERR before anyone
// learned of it: the work is taken and flushed, behind what the device has.
func TestDeviceRefusesInERR(t *testing.T) {
	b := newBench(t, nil).connect()
	b.lib.takes, b.lib.refuses, b.lib.qpErr = 1, unix.ENOTCONN, true
	if err := b.qp.PostSend([]verbs.SendWR{{ID: 1}, {ID: 2}, {ID: 3}}); err != nil {
		t.Fatal(err)
	}
	if got := b.poll(); len(got) != 0 {
		t.Errorf("completions %+v before that of the device", got)
	}
	b.lib.done(b.cq, b.lib.sent[0].id, verbs.WCWRFlushErr, 0)
	wantFlushed(t, b, 1, 2, 3)
	<-b.c.Disconnected()
	if err := b.c.Err(); !errors.Is(err, errQPError) {
		t.Errorf("cause of the end: %v", err)
	}
}

// wantFlushed waits for the flush of requests, in this order and no more.
func wantFlushed(t *testing.T, b *bench, ids ...uint64) {
	t.Helper()
	var got []uint64
	for deadline := time.Now().Add(5 * time.Second); len(got) < len(ids) && time.Now().Before(deadline); {
		for _, wc := range b.poll() {
			if wc.Status != verbs.WCWRFlushErr {
				t.Errorf("completion %+v", wc)
			}
			got = append(got, wc.ID)
		}
	}
	if d := cmp.Diff(ids, got); d != "" {
		t.Errorf("flushed (-want +got)\n%s", d)
	}
	if more := b.poll(); len(more) > 0 {
		t.Errorf("more completions: %+v", more)
	}
}

// Protects the order in ERR: the device's work first, then what it never got, on
// both queues.
func TestFlushOrder(t *testing.T) {
	b := newBench(t, nil).connect()
	if err := b.qp.PostSend([]verbs.SendWR{{ID: 1}, {ID: 2}}); err != nil {
		t.Fatal(err)
	}
	if err := b.qp.Modify(verbs.QPStateERR); err != nil {
		t.Fatal(err)
	}
	if err := b.qp.PostSend([]verbs.SendWR{{ID: 3}}); err != nil {
		t.Fatal(err)
	}
	if err := b.qp.PostRecv([]verbs.RecvWR{{ID: 9}}); err != nil {
		t.Fatal(err)
	}
	wantFlushed(t, b, 9) // nothing is before it in its queue
	b.lib.done(b.cq, b.lib.sent[0].id, verbs.WCWRFlushErr, 0)
	b.lib.done(b.cq, b.lib.sent[1].id, verbs.WCWRFlushErr, 0)
	wantFlushed(t, b, 1, 2, 3)
	if len(b.lib.sent) != 2 || len(b.lib.received) != 0 || b.lib.errorSet != 1 {
		t.Errorf("the device got %d sends, %d receives, and was set to ERR %d times", len(b.lib.sent), len(b.lib.received), b.lib.errorSet)
	}
}

// Protects programs from devices that never flush: the QP is taken from the device
// before anything is called flushed, and what the device says later is dropped.
func TestBury(t *testing.T) {
	b := newBench(t, nil).connect()
	if err := b.qp.PostSend([]verbs.SendWR{{ID: 1, Flags: verbs.SendSignaled}, {ID: 2}}); err != nil {
		t.Fatal(err)
	}
	b.lib.done(b.cq, b.lib.sent[0].id, verbs.WCSuccess, 0)
	if err := b.qp.Modify(verbs.QPStateERR); err != nil {
		t.Fatal(err)
	}
	b.qp.bury()
	if len(b.lib.destroyed) != 1 {
		t.Error("the device still has the QP")
	}
	b.lib.done(b.cq, b.lib.sent[1].id, verbs.WCSuccess, 0)
	if got := b.poll(); len(got) != 2 || got[0].ID != 1 || got[0].Status != verbs.WCSuccess || got[1].ID != 2 || got[1].Status != verbs.WCWRFlushErr {
		t.Errorf("completions %+v", got)
	}
	wantFlushed(t, b)
}

// Protects everyone when a device goes: connections end, work is flushed, for the
// reason that is told.
func TestDeviceRemoved(t *testing.T) {
	b := newBench(t, nil).connect()
	if err := b.qp.PostRecv([]verbs.RecvWR{{ID: 1}, {ID: 2}}); err != nil {
		t.Fatal(err)
	}
	b.c.dev.handleEvent(eventDeviceFatal, 0)
	wantFlushed(t, b, 1, 2)
	<-b.c.Disconnected()
	if err := b.c.Err(); !errors.Is(err, errDeviceRemoved) {
		t.Errorf("cause of the end: %v", err)
	}
	if _, err := b.p.device(1); !errors.Is(err, errDeviceRemoved) {
		t.Errorf("the device is found again: %v", err)
	}
	mr, err := b.pd.RegMR(make([]byte, 1), 0)
	if !errors.Is(err, errDeviceRemoved) {
		t.Errorf("register memory on it: %v, error %v", mr, err)
	}
}

// Protects the owner of a handled CQ whose device goes: what was outstanding comes to
// the handler, and the queue can be destroyed.
func TestDeviceRemovedHandled(t *testing.T) {
	got := make(chan verbs.WC, 10)
	b := newBench(t, func(_ *verbs.QPInitAttr, c *verbs.CQAttr, _ *fakeLibrary) {
		c.Handler = func(batch []verbs.WC) {
			for _, wc := range batch {
				got <- wc
			}
		}
	}).connect()
	mem := make([]byte, 1)
	mr, err := b.pd.RegMR(mem, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.qp.PostRecv([]verbs.RecvWR{{ID: 1}}); err != nil {
		t.Fatal(err)
	}
	b.c.handleEvent(cmEvent{event: cmDeviceRemoval})
	for _, id := range []uint64{1, 2} {
		select {
		case wc := <-got:
			if wc.ID != id || wc.Status != verbs.WCWRFlushErr {
				t.Errorf("completion %+v, want request %d flushed", wc, id)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("no completion of request %d", id)
		}
		if err := b.qp.PostRecv([]verbs.RecvWR{{ID: 2}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := mr.Dereg(); err != nil {
		t.Errorf("deregister: %v", err)
	}
}

// Protects SQD, which iWARP devices don't have: the device gets nothing until RTS,
// inline data is that of the post, and what is held is flushed in ERR.
func TestSQD(t *testing.T) {
	b := newBench(t, nil).connect()
	mem, err := verbs.AllocMemory(4096)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = verbs.FreeMemory(mem) }()
	copy(mem, "before")
	if err := b.qp.Modify(verbs.QPStateSQD); err != nil {
		t.Fatal(err)
	}
	wrs := []verbs.SendWR{{ID: 1}, {ID: 2, Flags: verbs.SendInline, SGEs: []verbs.SGE{{Addr: verbs.AddrOf(mem), Length: 6}}}}
	if err := b.qp.PostSend(wrs); err != nil {
		t.Fatal(err)
	}
	copy(mem, "after!")
	if len(b.lib.sent) != 0 {
		t.Error("the device got a request in SQD")
	}
	if err := b.qp.Modify(verbs.QPStateRTS); err != nil {
		t.Fatal(err)
	}
	if len(b.lib.sent) != 2 || b.lib.sent[1].id&numberMask != 1 {
		t.Fatalf("the device got %+v in RTS", b.lib.sent)
	}
	if s := b.lib.sentSGEs[0]; string(inlineBytes(s.Addr, int(s.Length))) != "before" {
		t.Errorf("inline data %q", inlineBytes(s.Addr, int(s.Length)))
	}
	for _, r := range b.lib.sent {
		b.lib.done(b.cq, r.id, verbs.WCSuccess, 0)
	}
	b.poll()
	if err := b.qp.Modify(verbs.QPStateSQD); err != nil {
		t.Fatal(err)
	}
	if err := b.qp.PostSend([]verbs.SendWR{{ID: 3}, {ID: 4}}); err != nil {
		t.Fatal(err)
	}
	if err := b.qp.Modify(verbs.QPStateERR); err != nil {
		t.Fatal(err)
	}
	wantFlushed(t, b, 3, 4)
}

// Protects programs that destroy first and poll later, and the other way round:
// completions from before are kept, those from after are not seen.
func TestDestroyKeepsCompletions(t *testing.T) {
	b := newBench(t, nil).connect()
	if err := b.qp.PostSend([]verbs.SendWR{{ID: 1}, {ID: 2}}); err != nil {
		t.Fatal(err)
	}
	b.lib.done(b.cq, b.lib.sent[0].id, verbs.WCSuccess, 0)
	if err := b.qp.Destroy(); err != nil {
		t.Fatal(err)
	}
	b.lib.done(b.cq, b.lib.sent[1].id, verbs.WCWRFlushErr, 0)
	if got := b.poll(); len(got) != 1 || got[0].ID != 1 || got[0].Status != verbs.WCSuccess {
		t.Errorf("completions %+v", got)
	}
}

// Protects a handled CQ: its goroutine is woken for the provider's completions.
func TestHandlerGetsFlush(t *testing.T) {
	got := make(chan uint64, 10)
	b := newBench(t, func(_ *verbs.QPInitAttr, c *verbs.CQAttr, _ *fakeLibrary) {
		c.Handler = func(batch []verbs.WC) {
			for _, wc := range batch {
				got <- wc.ID
			}
		}
	}).connect()
	time.Sleep(10 * time.Millisecond) // it waits by now
	if err := b.qp.Modify(verbs.QPStateERR); err != nil {
		t.Fatal(err)
	}
	if err := b.qp.PostRecv([]verbs.RecvWR{{ID: 1}}); err != nil {
		t.Fatal(err)
	}
	select {
	case id := <-got:
		if id != 1 {
			t.Errorf("completion of request %d", id)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("no completion")
	}
}

// Protects the speed of posting and polling.
func TestNoAllocations(t *testing.T) {
	b := newBench(t, nil).connect()
	sends := []verbs.SendWR{{ID: 1, SGEs: []verbs.SGE{{Addr: 1, Length: 1}}}, {ID: 2}}
	recvs := []verbs.RecvWR{{ID: 1}}
	b.lib.sent, b.lib.received = make([]sendRecord, 0, 10000), make([]recvRecord, 0, 10000)
	b.lib.cqs[b.cq.(*cq).native] = make([]wcRecord, 0, 10000)
	n := testing.AllocsPerRun(200, func() {
		if b.qp.PostRecv(recvs) != nil || b.qp.PostSend(sends) != nil {
			t.Fatal("a post was refused")
		}
		b.lib.done(b.cq, b.lib.sent[len(b.lib.sent)-1].id, verbs.WCSuccess, 0)
		b.lib.done(b.cq, b.lib.received[len(b.lib.received)-1].id, verbs.WCSuccess, wcRecv)
		if len(b.poll()) != 2 {
			t.Fatal("completions are missing")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Protects the numbering when it wraps around, and from completions of requests
// that are none.
func TestWorkQueue(t *testing.T) {
	w := newWorkQueue(5)
	w.head.Store(1<<32 - 2)
	w.tail.Store(1<<32 - 2)
	for i := range 5 {
		if got := w.put(i, uint64(100+i)); got != uint32(1<<32-2+uint64(i)) {
			t.Errorf("entry %d has number %d", i, got)
		}
	}
	w.tail.Add(5)
	if w.room() != 0 {
		t.Errorf("room for %d", w.room())
	}
	for _, tt := range []struct {
		number uint32
		id     uint64
		ok     bool
	}{{1<<31 - 3, 0, false}, {1<<31 - 2, 100, true}, {1<<31 - 2, 0, false}, {1, 103, true}, {3, 0, false}, {2, 104, true}, {2, 0, false}} {
		if id, ok := w.retire(tt.number); id != tt.id || ok != tt.ok {
			t.Errorf("number %d: ID %d, %v; want %d, %v", tt.number, id, ok, tt.id, tt.ok)
		}
	}
}
