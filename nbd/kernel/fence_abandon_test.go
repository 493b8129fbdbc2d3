package kernel

import (
	"sync"
	"testing"

	"rbd/nbd"
	"rbd/nbd/nbdtest"
)

// awayDisk keeps back what it gets until it is abandoned or there again.
type awayDisk struct {
	*gate
	kept  chan struct{} // has an element for each request that is kept
	mu    sync.Mutex
	there bool
}

type awayQueue struct {
	nbd.Queue
	disk  *awayDisk
	owner nbd.Owner

	mu   sync.Mutex
	kept []*nbd.Request
}

func (d *awayDisk) OpenQueue(o nbd.Owner) (nbd.Queue, error) {
	q, err := d.gate.OpenQueue(o)
	return &awayQueue{Queue: q, disk: d, owner: o}, err
}

func (q *awayQueue) Submit(reqs []*nbd.Request) {
	q.disk.mu.Lock()
	defer q.disk.mu.Unlock()
	if q.disk.there {
		q.Queue.Submit(reqs)
		return
	}
	q.mu.Lock()
	q.kept = append(q.kept, reqs...)
	q.mu.Unlock()
	q.disk.kept <- struct{}{}
}

func (q *awayQueue) Abandon() {
	q.mu.Lock()
	kept := q.kept
	q.kept = nil
	q.mu.Unlock()
	for _, r := range kept {
		r.Err = nbd.ErrIO
	}
	if len(kept) > 0 {
		q.owner.Complete(kept)
	}
}

// Protects the device's requests from one that the device keeps back, on a connection
// that the kernel has given up: the copies need not wait until it is done, and it is
// never done.
func TestFenceAbandons(t *testing.T) {
	g := newGate(t)
	close(g.open)
	d := &awayDisk{gate: g, kept: make(chan struct{}, 1)}
	k, h := newFakeKernel(t)
	s, e := newServer(t, g.RAM)
	e.Device = d
	a, err := h.Attach(s, e, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.ForceDetach(t.Context()); await(t, a) })
	if err := k.socket(0).Send(write('x', 1)); err != nil {
		t.Fatal(err)
	}
	<-d.kept
	k.mu.Lock()
	k.drop(0)
	k.mu.Unlock()
	d.mu.Lock()
	d.there = true
	d.mu.Unlock()
	ask(t, k.socket(1), write('a', 2))
	ask(t, k.socket(0), nbdtest.Request{Cmd: nbdtest.CmdFlush, Cookie: 3}) // it has been replaced
	if got := g.order(); got != "a" {
		t.Errorf("writes were done in the order %q, want a", got)
	}
}
