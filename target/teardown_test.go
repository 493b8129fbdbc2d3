package target

import "testing"

// TestPostedWhileDying protects the end of a queue from a request that its controller
// answers at that moment: what is in the inbox comes back by the inbox, with all
// behind it.
func TestPostedWhileDying(t *testing.T) {
	target, dev := fuzzTarget(t)
	h := newHarness(t, target, dev, 0, 8)
	q := h.q
	q.call(func() {
		kept, late, executing := q.take(), q.take(), q.take()
		for _, s := range []*slot{kept, late} {
			s.enter(slotParked)
			q.parked++
		}
		executing.enter(slotExecuting)
		q.post(kept) // the owner is busy, so they stay in the inbox
		q.post(executing)
		q.die()
		q.post(late)
	})
	h.close()
	if err := target.closeAll(t.Context()); err != nil {
		t.Fatal(err)
	}
}
