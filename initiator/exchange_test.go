package initiator

import (
	"errors"
	"testing"

	"rbd/wire"
)

// Protects the command identifiers: every generation of a slot has another one,
// they come round after 16, and only the one that is out is found.
func TestExchangeGenerations(t *testing.T) {
	x := newExchange(3)
	seen := map[uint16]bool{}
	for turn := range 2 * (genMask + 1) {
		r := &Request{Op: OpFlush}
		x.enqueue(r)
		i, got := x.next()
		if got != r || i != 0 {
			t.Fatalf("turn %d: slot %d, want 0: the last one that was freed", turn, i)
		}
		cid := x.cid(i)
		if seen[cid] != (turn > genMask) {
			t.Errorf("turn %d: CID %#x", turn, cid)
		}
		seen[cid] = true
		for gen := range uint16(genMask + 1) {
			if other := gen<<tagBits | uint16(i); other != cid && x.answer(&wire.CQE{CID: other}) == nil {
				t.Fatalf("turn %d: answer to %#x taken for %#x", turn, other, cid)
			}
		}
		if err := x.sent(cid); err != nil {
			t.Fatal(err)
		}
		if x.sent(cid) == nil {
			t.Fatal("a send completed twice")
		}
		if err := x.answer(&wire.CQE{CID: cid}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(x.take(nil)); n != 2*(genMask+1) {
		t.Errorf("%d requests finished", n)
	}
	if !x.idle() {
		t.Error("not idle")
	}
}

// Protects the conditions of progress: what counts as idle, and as stuck until a
// send completes.
func TestExchangeStuck(t *testing.T) {
	x := newExchange(1)
	check := func(when string, stuck, idle bool) {
		t.Helper()
		if x.stuck() != stuck || x.idle() != idle {
			t.Errorf("%s: stuck %v, idle %v, want %v, %v", when, x.stuck(), x.idle(), stuck, idle)
		}
	}
	check("new", false, true)
	x.enqueue(&Request{Op: OpFlush})
	check("waiting", false, false)
	i, _ := x.next()
	check("out", false, false)
	cid := x.cid(i)
	if err := x.answer(&wire.CQE{CID: cid}); err != nil {
		t.Fatal(err)
	}
	check("answered before sent, nobody waits", false, true)
	x.enqueue(&Request{Op: OpFlush})
	check("another waits for the slot", true, false)
	if err := x.sent(cid); err != nil {
		t.Fatal(err)
	}
	check("the slot is free", false, false)
	i, _ = x.next()
	x.slots[i].gathers = true
	if err := x.answer(&wire.CQE{CID: x.cid(i)}); err != nil {
		t.Fatal(err)
	}
	check("the buffer is still being sent", true, false)
	if err := x.sent(x.cid(i)); err != nil {
		t.Fatal(err)
	}
	check("all done", false, true)
}

// FuzzExchange feeds a queue with answers and completions of sends that a peer or
// provider might come up with: whatever it is, every request finishes exactly
// once, slots are not lost, and the slot of a gathered buffer waits for its SEND.
func FuzzExchange(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 2, 0})
	f.Add([]byte{0, 0, 0, 0, 2, 1, 2, 0, 1, 0, 1, 1, 3, 0})
	f.Add([]byte{0, 9, 2, 0, 4, 0x10, 2, 0, 1, 0, 0, 1, 5, 5})
	f.Fuzz(func(t *testing.T, script []byte) {
		x := newExchange(4)
		over := map[*Request]int{}
		var all []*Request
		collect := func() {
			for _, r := range x.take(nil) {
				over[r]++
				if over[r] > 1 {
					t.Fatal("a request finished twice")
				}
			}
		}
		for len(script) >= 2 {
			op, arg := script[0], script[1]
			script = script[2:]
			cid := x.cid(int(arg & 3))
			switch op % 6 {
			case 0:
				r := &Request{Op: OpFlush}
				if arg&8 != 0 {
					r = &Request{Op: OpTrim, Length: 2 << 9, chunk: 1 << 9, info: &NamespaceInfo{shift: 9}}
				}
				all = append(all, r)
				x.enqueue(r)
			case 1:
				if i, r := x.next(); r != nil {
					x.slots[i].gathers = arg&1 != 0
				}
			case 2:
				if x.answer(&wire.CQE{CID: cid, Status: wire.Status(arg >> 4)}) == nil && x.slots[arg&3].gathers &&
					x.slots[arg&3].busy && x.slots[arg&3].req == nil {
					t.Fatal("the request of a gathered buffer went on before its SEND completed")
				}
			case 3:
				_ = x.sent(cid)
			case 4:
				_ = x.answer(&wire.CQE{CID: uint16(arg) << 8})
			case 5:
				_ = x.sent(uint16(arg))
			}
			collect()
			busy := 0
			for i := range x.slots {
				if x.slots[i].busy {
					busy++
				}
			}
			if busy+len(x.free) != len(x.slots) {
				t.Fatalf("%d slots busy and %d free of %d", busy, len(x.free), len(x.slots))
			}
		}
		for _, r := range x.retreat() {
			over[r]++
		}
		for _, r := range all {
			if over[r] != 1 {
				t.Fatalf("a request finished %d times", over[r])
			}
		}
	})
}

// FuzzQueueResponses gives the receive handler response capsules of any content
// and order: requests come back at most once, and all when the queue ends.
func FuzzQueueResponses(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 2, 0}, uint8(3))
	f.Add([]byte{0, 0x10, 0, 0, 0, 0, 1, 0xF0}, uint8(6))
	f.Fuzz(func(t *testing.T, script []byte, requests uint8) {
		fx := newFixture(t, 4, 512)
		o := newCollector()
		n := int(requests%16) + 1
		var reqs []*Request
		for i := range n {
			reqs = append(reqs, fx.req(o, Op(i%5), uint64(i)*512, 512))
		}
		fx.q.Submit(reqs)
		for len(script) >= 2 && len(fx.fail) == 0 {
			c := wire.CQE{CID: uint16(script[1])<<8 | uint16(script[0]), Status: wire.Status(script[1]) & 0x0F}
			script = script[2:]
			fx.answer(c)
		}
		fx.end(t, ErrClosed)
		o.wait(t, n)
		o.none(t)
	})
}

// Protects requests from the end of a controller: what it refuses because it is not
// enabled any more is not over, but is sent again when there is a new connection.
func TestExchangeNotEnabled(t *testing.T) {
	for _, r := range []*Request{{Op: OpRead, Length: 512}, {Op: OpFlush}} {
		x := newExchange(1)
		x.enqueue(r)
		i, _ := x.next()
		err := x.answer(&wire.CQE{CID: x.cid(i), Status: wire.StatusCommandSequenceError | wire.StatusDNR})
		if !errors.Is(err, wire.StatusCommandSequenceError) {
			t.Errorf("%v: %v", r.Op, err)
		}
		if n := len(x.take(nil)); n != 0 || x.idle() {
			t.Errorf("%v: %d requests finished, idle %v", r.Op, n, x.idle())
		}
	}
}
