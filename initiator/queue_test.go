package initiator

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"rbd/verbs"
	"rbd/wire"
)

// Protects the form of every command as a controller sees it: kind, range, FUA,
// where the data is, and that in-capsule data is what the buffer holds.
func TestQueueCommands(t *testing.T) {
	type want struct {
		op     wire.IOOpcode
		slba   uint64
		blocks uint32
		fua    bool
		deac   bool
		inside int // bytes of in-capsule data
		keyed  uint32
	}
	for _, tc := range []struct {
		name      string
		inCapsule uint64
		req       Request
		want      []want
	}{
		{"read is keyed whatever its size", 4096, Request{Op: OpRead, Offset: 512, Length: 512},
			[]want{{op: wire.IORead, slba: 1, blocks: 1, keyed: 512}}},
		{"small write goes in the capsule", 4096, Request{Op: OpWrite, Offset: 4096, Length: 4096},
			[]want{{op: wire.IOWrite, slba: 8, blocks: 8, inside: 4096}}},
		{"large write is keyed", 4096, Request{Op: OpWrite, Offset: 0, Length: 8192, FUA: true},
			[]want{{op: wire.IOWrite, blocks: 16, fua: true, keyed: 8192}}},
		{"no in-capsule data", 0, Request{Op: OpWrite, Length: 512},
			[]want{{op: wire.IOWrite, blocks: 1, keyed: 512}}},
		{"flush", 0, Request{Op: OpFlush}, []want{{op: wire.IOFlush}}},
		{"write zeroes deallocates", 0, Request{Op: OpWriteZeroes, Length: 4096},
			[]want{{op: wire.IOWriteZeroes, blocks: 8, deac: true}}},
		{"write zeroes without unmap", 0, Request{Op: OpWriteZeroes, Length: 4096, NoUnmap: true, FUA: true},
			[]want{{op: wire.IOWriteZeroes, blocks: 8, fua: true}}},
		{"long write zeroes in parts", 0, Request{Op: OpWriteZeroes, Offset: 512, Length: 192 << 10},
			[]want{{op: wire.IOWriteZeroes, slba: 1, blocks: 256, deac: true}, {op: wire.IOWriteZeroes, slba: 257, blocks: 128, deac: true}}},
		{"long read in parts", 0, Request{Op: OpRead, Length: 96 << 10},
			[]want{{op: wire.IORead, blocks: 128, keyed: 64 << 10}, {op: wire.IORead, slba: 128, blocks: 64, keyed: 32 << 10}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, 4, tc.inCapsule)
			f.keepData = true
			for i := range f.buf {
				f.buf[i] = byte(i * 7)
			}
			o := newCollector()
			r := f.req(o, tc.req.Op, tc.req.Offset, tc.req.Length)
			r.FUA, r.NoUnmap = tc.req.FUA, tc.req.NoUnmap
			f.q.Submit([]*Request{r})
			done := uint64(0)
			for i, w := range tc.want {
				sqes := f.take()
				if len(sqes) != 1 {
					t.Fatalf("%d capsules, want 1", len(sqes))
				}
				s := sqes[0]
				if s.Opcode != uint8(w.op) || s.NSID != 1 || s.Flags != wire.FlagsPSDTSGL {
					t.Errorf("opcode %#x nsid %d flags %#x", s.Opcode, s.NSID, s.Flags)
				}
				if w.blocks > 0 && (s.SLBA() != w.slba || s.Blocks() != w.blocks || s.FUA() != w.fua || s.DEAC() != w.deac) {
					t.Errorf("got %v, want %+v", (*wire.IOSQE)(&s), w)
				}
				switch {
				case w.inside > 0:
					if s.SGL != wire.OffsetSGL(0, uint32(w.inside)) {
						t.Errorf("SGL %v", &s.SGL)
					}
					if !bytes.Equal(f.data[i], r.Buf.Data[done:done+uint64(w.inside)]) {
						t.Error("in-capsule data is not the buffer's")
					}
				case w.keyed > 0:
					if s.SGL != wire.KeyedSGL(r.Buf.Addr+done, w.keyed, r.Buf.RKey, false) {
						t.Errorf("SGL %v", &s.SGL)
					}
				default:
					if s.SGL != wire.NoDataSGL() {
						t.Errorf("SGL %v", &s.SGL)
					}
				}
				o.none(t)
				done += uint64(w.blocks) << 9
				f.answer(ok(s))
			}
			o.wait(t, 1)
			if r.Err != nil {
				t.Error(r.Err)
			}
		})
	}
}

// Protects trim: its range goes in the capsule, or by key from the capsule's own
// memory, and long trims are split.
func TestQueueTrim(t *testing.T) {
	for _, inCapsule := range []uint64{0, 4096} {
		t.Run(fmt.Sprint(inCapsule), func(t *testing.T) {
			f := newFixture(t, 4, inCapsule)
			f.keepData = true
			o := newCollector()
			f.q.Submit([]*Request{f.req(o, OpTrim, 1024, 160<<10)})
			for i, want := range []wire.DSMRange{{SLBA: 2, Blocks: 256}, {SLBA: 258, Blocks: 64}} {
				s := f.take()[0]
				if s.Opcode != uint8(wire.IODSM) || s.DSMRanges() != 1 || s.DSMAttributes() != wire.DSMDeallocate || s.SGL.Length != 16 {
					t.Errorf("command %v", (*wire.IOSQE)(&s))
				}
				data := f.data[i]
				if inCapsule == 0 {
					data = f.bytes(s.SGL.Addr, s.SGL.Length, s.SGL.Key)
				}
				var got wire.DSMRange
				if err := got.Parse(data); err != nil || got != want {
					t.Errorf("range %+v (%v), want %+v", got, err, want)
				}
				f.answer(ok(s))
			}
			o.wait(t, 1)
		})
	}
}

// Protects write zeroes on targets that announce the command and refuse it for some
// namespaces, as nvmet does for a file on tmpfs: zeros go as data then, from the
// refusal on, and any other error is still an error.
func TestQueueZeroesAsData(t *testing.T) {
	f := newFixture(t, 4, 4096)
	o := newCollector()
	zeroes := func(off, length uint64, refused bool) {
		t.Helper()
		r := f.req(o, OpWriteZeroes, off, length)
		r.FUA = true
		f.q.Submit([]*Request{r})
		if refused {
			f.answer(wire.CQE{CID: f.take()[0].CID, Status: wire.StatusInvalidOpcode.WithDNR()})
		}
		for at := off; at < off+length; at += zeroesSize {
			n := min(off+length-at, zeroesSize)
			s := f.take()[0]
			if s.Opcode != uint8(wire.IOWrite) || s.SLBA() != at>>9 || uint64(s.Blocks())<<9 != n || !s.FUA() || uint64(s.SGL.Length) != n {
				t.Errorf("command %v for %d bytes at %d", (*wire.IOSQE)(&s), n, at)
			}
			if data := f.bytes(s.SGL.Addr, s.SGL.Length, s.SGL.Key); bytes.ContainsFunc(data, func(c rune) bool { return c != 0 }) {
				t.Error("the data is not zeros")
			}
			f.answer(ok(s))
		}
		o.wait(t, 1)
		if r.Err != nil {
			t.Error(r.Err)
		}
	}
	zeroes(512, 96<<10, true) // done as two writes
	zeroes(4096, 8192, false) // the command is not even tried
	g := newFixture(t, 4, 4096)
	r := g.req(o, OpWriteZeroes, 0, 512)
	g.q.Submit([]*Request{r})
	g.answer(wire.CQE{CID: g.take()[0].CID, Status: wire.StatusInternalError.WithDNR()})
	o.wait(t, 1)
	if !errors.Is(r.Err, wire.StatusInternalError) {
		t.Errorf("error is %v", r.Err)
	}
}

// Protects small queues on Linux: nvmet sizes its send queue by HRQSIZE, and hangs
// on a read of 1 MiB if that is less than 11.
func TestQueueReceives(t *testing.T) {
	for _, c := range []struct{ slots, receives int }{{1, 16}, {14, 16}, {15, 16}, {31, 32}, {127, 128}} {
		f := newFixture(t, c.slots, 0)
		var asked wire.CMRequest
		if err := asked.Parse(f.asked.PrivateData); err != nil {
			t.Fatal(err)
		}
		if int(asked.HRQSize) != c.receives || len(f.recvs) != c.receives || int(asked.HSQSize) != c.slots {
			t.Errorf("%d slots: HRQSIZE %d with %d receives posted, HSQSIZE %d, want %d and %d", c.slots, asked.HRQSize, len(f.recvs), asked.HSQSize, c.receives, c.slots)
		}
	}
}

// Protects the batch rules: one post for all that have slots, the rest in order
// into the slots of one batch of answers with one post, and owners told in groups.
func TestQueueBatches(t *testing.T) {
	f := newFixture(t, 4, 0)
	a, b := newCollector(), newCollector()
	var reqs []*Request
	for i := range 6 {
		o := a
		if i%2 == 1 {
			o = b
		}
		reqs = append(reqs, f.req(o, OpRead, uint64(i)*512, 512))
	}
	f.q.Submit(reqs)
	first := f.take()
	if len(first) != 4 || f.posts != 1 {
		t.Fatalf("%d capsules in %d posts, want 4 in 1", len(first), f.posts)
	}
	f.answer(ok(first[3]), ok(first[0]), ok(first[1]))
	if next := f.take(); len(next) != 2 || f.posts != 2 || next[0].SLBA() != 4 || next[1].SLBA() != 5 {
		t.Fatalf("%d capsules in %d posts after the answers", len(next), f.posts)
	} else {
		f.answer(ok(first[2]), ok(next[0]), ok(next[1]))
	}
	a.wait(t, 3)
	b.wait(t, 3)
	if len(a.batches) != 2 || len(b.batches) != 2 {
		t.Errorf("owners were told in %d and %d batches, want 2 each", len(a.batches), len(b.batches))
	}
}

// Protects against answers that were not asked for: they end the connection and
// complete nothing.
func TestQueueStrangeAnswers(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(f *fixture, s wire.SQE)
	}{
		{"unknown tag", func(f *fixture, s wire.SQE) { f.answer(wire.CQE{CID: s.CID + 1}) }},
		{"tag out of range", func(f *fixture, s wire.SQE) { f.answer(wire.CQE{CID: 0xFFF}) }},
		{"other generation", func(f *fixture, s wire.SQE) { f.answer(wire.CQE{CID: s.CID ^ 0x1000}) }},
		{"too short", func(f *fixture, s wire.SQE) {
			f.recvCQ.attr.Handler([]verbs.WC{{ID: 0, Opcode: verbs.WCRecv, ByteLen: 15}})
		}},
		{"too long", func(f *fixture, s wire.SQE) {
			f.recvCQ.attr.Handler([]verbs.WC{{ID: 0, Opcode: verbs.WCRecv, ByteLen: 17}})
		}},
		{"with invalidate", func(f *fixture, s wire.SQE) {
			f.recvCQ.attr.Handler([]verbs.WC{{ID: 0, Opcode: verbs.WCRecv, ByteLen: 16, Flags: verbs.WCWithInv}})
		}},
		{"receive error", func(f *fixture, s wire.SQE) {
			f.recvCQ.attr.Handler([]verbs.WC{{ID: 0, Status: verbs.WCLocLenErr}})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t, 4, 0)
			o := newCollector()
			f.q.Submit([]*Request{f.req(o, OpRead, 0, 512)})
			tc.do(f, f.take()[0])
			select {
			case <-f.fail:
			default:
				t.Error("the connection was not given up")
			}
			o.none(t)
		})
	}
}

// Protects against double completion: a second answer to the same command ends
// the connection.
func TestQueueAnsweredTwice(t *testing.T) {
	f := newFixture(t, 4, 0)
	o := newCollector()
	f.q.Submit([]*Request{f.req(o, OpRead, 0, 512), f.req(o, OpRead, 512, 512)})
	s := f.take()
	f.answer(ok(s[0]), ok(s[0]))
	o.wait(t, 1)
	o.none(t)
	var violation *ProtocolError
	if err := <-f.fail; !errors.As(err, &violation) {
		t.Errorf("got %v", err)
	}
}

// Protects against a hang when answers overtake the completions of their sends:
// reads go on at once, in-capsule writes and those without a slot when the SEND
// has completed, though no further answer comes.
func TestQueueAnswerBeforeSend(t *testing.T) {
	f := newFixture(t, 2, 4096)
	f.lag = true
	o := newCollector()
	read, write, waits := f.req(o, OpRead, 0, 512), f.req(o, OpWrite, 512, 512), f.req(o, OpRead, 1024, 512)
	f.q.Submit([]*Request{read, write, waits})
	s := f.take()
	f.answer(ok(s[0]), ok(s[1]))
	o.wait(t, 1)
	if o.done[0] != read {
		t.Error("another than the read came back")
	}
	time.Sleep(10 * time.Millisecond)
	o.none(t)
	if n := len(f.take()); n != 0 {
		t.Errorf("%d capsules sent while no slot is free", n)
	}
	f.release() // only the completions of the sends; nobody calls the handler
	o.wait(t, 1)
	if o.done[1] != write {
		t.Error("the write did not come back")
	}
	var last []wire.SQE
	for deadline := time.Now().Add(5 * time.Second); len(last) == 0; last = f.take() {
		if time.Now().After(deadline) {
			t.Fatal("the request that waited for a slot was not sent")
		}
		time.Sleep(time.Millisecond)
	}
	f.release()
	f.answer(ok(last[0]))
	o.wait(t, 1)
}

// Protects owners from requests that can't be sent: each comes back with a typed
// error, on another goroutine, and nothing is sent.
func TestQueueRefusals(t *testing.T) {
	f := newFixture(t, 4, 0)
	ro := &Namespace{nsid: 2}
	ro.info.Store(&NamespaceInfo{NSID: 2, Size: 4096, BlockSize: 512, shift: 9, ReadOnly: true})
	m := map[uint32]*Namespace{1: f.ns.get(1), 2: ro}
	f.ns.m.Store(&m)
	for _, tc := range []struct {
		name string
		req  Request
		want error
	}{
		{"no namespace", Request{Op: OpFlush, NSID: 3}, ErrNoNamespace},
		{"unaligned offset", Request{Op: OpRead, NSID: 1, Offset: 1, Length: 512}, ErrUnaligned},
		{"unaligned length", Request{Op: OpRead, NSID: 1, Length: 513}, ErrUnaligned},
		{"empty", Request{Op: OpWrite, NSID: 1}, ErrUnaligned},
		{"behind the end", Request{Op: OpTrim, NSID: 1, Offset: 1 << 20, Length: 512}, ErrOutOfRange},
		{"over the end", Request{Op: OpTrim, NSID: 1, Offset: 1<<20 - 512, Length: 1024}, ErrOutOfRange},
		{"wraps", Request{Op: OpTrim, NSID: 1, Offset: 1<<64 - 512, Length: 1024}, ErrOutOfRange},
		{"length wraps", Request{Op: OpTrim, NSID: 1, Offset: 512, Length: 1<<64 - 512}, ErrOutOfRange},
		{"small buffer", Request{Op: OpRead, NSID: 1, Length: 512}, verbs.ErrInvalid},
		{"write read-only", Request{Op: OpWrite, NSID: 2, Length: 512}, ErrReadOnly},
		{"trim read-only", Request{Op: OpTrim, NSID: 2, Length: 512}, ErrReadOnly},
		{"no such operation", Request{Op: 99, NSID: 1, Length: 512}, verbs.ErrInvalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := newCollector()
			r := tc.req
			r.Owner = o
			f.q.Submit([]*Request{&r})
			o.wait(t, 1)
			if !errors.Is(r.Err, tc.want) {
				t.Errorf("got %v, want %v", r.Err, tc.want)
			}
			if n := len(f.take()); n != 0 {
				t.Errorf("%d capsules sent", n)
			}
		})
	}
}

// Protects error statuses: they come back typed, with the range of the command
// that failed, and end a request in parts.
func TestQueueStatus(t *testing.T) {
	f := newFixture(t, 4, 0)
	o := newCollector()
	r := f.req(o, OpRead, 0, 128<<10)
	f.q.Submit([]*Request{r})
	f.answer(ok(f.take()[0]))
	c := ok(f.take()[0])
	c.Status = wire.StatusUnrecoveredRead.WithDNR()
	f.answer(c)
	o.wait(t, 1)
	var status *StatusError
	if !errors.As(r.Err, &status) || status.Offset != 64<<10 || status.Length != 64<<10 || !errors.Is(r.Err, wire.StatusUnrecoveredRead) {
		t.Errorf("got %v", r.Err)
	}
	if n := len(f.take()); n != 0 {
		t.Errorf("%d capsules sent after the error", n)
	}
}

// Protects the end of a connection: all requests, out and waiting, come back once
// and after the QP is gone; later ones are refused.
func TestQueueEnd(t *testing.T) {
	f := newFixture(t, 2, 0)
	o := newCollector()
	var reqs []*Request
	for i := range 5 {
		reqs = append(reqs, f.req(o, OpRead, uint64(i)*512, 512))
	}
	f.q.Submit(reqs)
	why := errors.New("cable out")
	f.q.giveUp(why)
	f.q.cut(why)
	o.none(t)
	if !f.cut {
		t.Error("requests would come back before the QP is destroyed")
	}
	f.end(t, why)
	o.wait(t, 5)
	f.q.Submit([]*Request{f.req(o, OpFlush, 0, 0)})
	o.wait(t, 1)
	o.none(t)
	for _, r := range o.done {
		if !errors.Is(r.Err, why) {
			t.Errorf("got %v", r.Err)
		}
	}
}

// Protects a request whose caller has gone: it is not sent any more if it waited.
func TestQueueWithdraw(t *testing.T) {
	f := newFixture(t, 1, 0)
	o := newCollector()
	out, a, b, c := f.req(o, OpFlush, 0, 0), f.req(o, OpFlush, 0, 0), f.req(o, OpFlush, 0, 0), f.req(o, OpFlush, 0, 0)
	f.q.Submit([]*Request{out, a, b, c})
	gone := errors.New("gone")
	for _, r := range []*Request{b, out, c, b} { // out and the second b are not in line
		f.q.withdraw(r, gone)
	}
	o.wait(t, 2)
	o.none(t)
	if !errors.Is(b.Err, gone) || !errors.Is(c.Err, gone) {
		t.Errorf("got %v, %v", b.Err, c.Err)
	}
	f.answer(ok(f.take()[0]))
	f.answer(ok(f.take()[0]))
	o.wait(t, 2)
	if a.Err != nil || out.Err != nil {
		t.Errorf("got %v, %v", a.Err, out.Err)
	}
}

// Protects the time limit: a command is overdue after more than limit ticks, one
// that waits for an event never.
func TestQueueOverdue(t *testing.T) {
	f := newFixture(t, 4, 0)
	o := newCollector()
	f.q.Submit([]*Request{{Op: opCommand, Owner: o, cmd: &command{sqe: wire.AsyncEventRequestSQE(), patient: true}}})
	f.tick.Add(100)
	if err := f.q.overdue(4); err != nil {
		t.Errorf("patient command: %v", err)
	}
	f.q.Submit([]*Request{f.req(o, OpFlush, 0, 0)})
	f.tick.Add(4)
	if err := f.q.overdue(4); err != nil {
		t.Errorf("after 4 ticks: %v", err)
	}
	f.tick.Add(1)
	if err := f.q.overdue(4); !errors.Is(err, ErrTimeout) {
		t.Errorf("after 5 ticks: %v", err)
	}
}

// ring is an owner that submits each request again, as fast path owners do.
type ring struct {
	q    *Queue
	done int
}

func (r *ring) Complete(batch []*Request) {
	r.done += len(batch)
	if batch[0].Err == nil {
		r.q.Submit(batch)
	}
}

// Protects the fast path from allocations, at a size that goes in the capsule and
// at one that does not.
func TestQueueAllocs(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, n := range []uint64{4096, 128 << 10} {
		f := newFixture(t, 8, 4096)
		o := &ring{q: f.q}
		for i := range 4 {
			f.q.Submit([]*Request{f.req(o, Op(i%2), 0, n)})
		}
		cqes := make([]wire.CQE, 0, 8)
		f.sent = append(make([]wire.SQE, 0, 64), f.sent...)
		round := func() {
			cqes = cqes[:0]
			for i := range f.sent {
				cqes = append(cqes, ok(f.sent[i]))
			}
			f.sent = f.sent[:0]
			f.answer(cqes...)
		}
		round()
		if allocs := testing.AllocsPerRun(200, round); allocs != 0 {
			t.Errorf("%d bytes: %v allocations per round of 4 requests", n, allocs)
		}
		if o.done < 400 { // those of 128 KiB take two commands each
			t.Errorf("only %d requests done", o.done)
		}
	}
}
