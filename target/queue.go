package target

import (
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"rbd/verbs"
	"rbd/verbs/bufpool"
)

// queueState is where a queue is in its life.
type queueState uint8

const (
	// queueNew: only a Connect may come.
	queueNew queueState = iota
	// queueConnecting: a Connect is being executed.
	queueConnecting
	// queueLive: bound to a controller.
	queueLive
	// queueDraining: what has begun is finished, nothing new is begun.
	queueDraining
	// queueDead: the connection is broken; no more answers are sent.
	queueDead
)

func (s queueState) String() string {
	names := [...]string{"new", "connecting", "live", "draining", "dead"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("queueState(%d)", uint8(s))
}

// queue is one submission and completion queue pair of NVMe on one QP. See the
// package comment for who may touch what.
type queue struct {
	t    *Target
	qp   verbs.QP
	pool *bufpool.Pool
	// at and hostQID are what the connection was made with.
	at      *endpoint
	hostQID uint16
	peer    net.Addr
	// cut ends the connection. It does not wait.
	cut func(error)
	// wake makes the conn look at its timers again. It does not wait.
	wake func()

	// bound is set when a Connect has bound the queue.
	bound atomic.Pointer[bond]
	// waiting is how many slots wait for the peer, and progress counts what it has
	// done, for the conn's watch over peers that stand still.
	waiting  atomic.Int32
	progress atomic.Uint32

	mem   *queueMemory
	slots []slot

	// The owner's.
	state   queueState
	ctrl    *controller // when live
	qid     uint16
	sqSize  uint16
	sqhd    uint16
	noFlow  bool // the host has turned submission queue flow control off
	noInval bool // the device can't end a host's key by its answer; the host does it
	free    *slot
	inUse   int
	parked  int
	moving  int // slots, and a probe, that wait for the peer
	probes  probes
	// own is the account of the queue's commands that are for no namespace, accounts
	// are those of the namespaces by identifier.
	own      *bufpool.Account
	accounts []*bufpool.Account
	early    []capsule
	cids     [1 << 16 / 64]uint64
	recvWRs  []verbs.RecvWR
	sendWRs  []verbs.SendWR
	spare    []verbs.WC // the inbox's other half

	mu    sync.Mutex
	owned bool
	inbox struct {
		wcs   []verbs.WC
		slots slotList
		calls []func()
	}
	drained chan struct{} // closed when dead, and no slot is in use
	quiet   chan struct{} // closed when draining, and only parked slots are in use
}

// bond is the hold of a queue and a controller on each other.
type bond struct {
	ctrl    *controller
	binding *binding
}

// capsule is a received message that has no slot yet.
type capsule struct {
	recv uint32
	n    uint32
}

// complete is the CQ handler.
func (q *queue) complete(batch []verbs.WC) {
	q.mu.Lock()
	if q.owned {
		q.inbox.wcs = append(q.inbox.wcs, batch...)
		q.mu.Unlock()
		return
	}
	q.owned = true
	q.mu.Unlock()
	q.completions(batch)
	q.settle()
	q.run()
}

// post brings a slot back: from a worker, a controller or the buffer pool.
func (q *queue) post(s *slot) {
	q.mu.Lock()
	if s.withheld {
		q.mu.Unlock()
		return
	}
	s.posted = true
	q.inbox.slots.push(s)
	q.enter()
}

// withhold keeps a slot out of the inbox from now on; false if it is in there.
func (q *queue) withhold(s *slot) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	s.withheld = !s.posted
	return s.withheld
}

// call runs f as the owner.
func (q *queue) call(f func()) {
	q.mu.Lock()
	q.inbox.calls = append(q.inbox.calls, f)
	q.enter()
}

// enter makes the caller, who holds mu, the owner if there is none.
func (q *queue) enter() {
	if q.owned {
		q.mu.Unlock()
		return
	}
	q.owned = true
	q.mu.Unlock()
	q.run()
}

// run handles the inbox until it is empty and all answers are posted, and then
// gives the ownership up.
func (q *queue) run() {
	for {
		q.mu.Lock()
		wcs, slots, calls := q.inbox.wcs, q.inbox.slots, q.inbox.calls
		q.inbox.wcs, q.inbox.slots, q.inbox.calls = q.spare[:0], slotList{}, nil
		q.spare = wcs
		if len(wcs) == 0 && slots.head == nil && len(calls) == 0 && len(q.sendWRs) == 0 && len(q.recvWRs) == 0 {
			q.owned = false
			q.mu.Unlock()
			return
		}
		q.mu.Unlock()
		if len(wcs) == 0 && slots.head == nil && len(calls) == 0 {
			q.flush()
			continue
		}
		if len(wcs) > 0 {
			q.completions(wcs)
		}
		for s := slots.pop(); s != nil; s = slots.pop() {
			q.resume(s)
		}
		for _, f := range calls {
			f()
		}
		q.settle()
	}
}

// completions handles work completions.
func (q *queue) completions(wcs []verbs.WC) {
	for i := range wcs {
		wc := &wcs[i]
		kind, index := splitWorkID(wc.ID)
		switch wc.Status {
		case verbs.WCSuccess:
		case verbs.WCWRFlushErr: // the connection has ended, and its conn knows why
			q.state = queueDead
			continue
		default:
			q.broken(fmt.Errorf("%s: %s", kind, wc.Status))
			continue
		}
		switch kind {
		case workRecv:
			q.receive(capsule{recv: index, n: wc.ByteLen})
		case workRead:
			q.progress.Add(1)
			if s := &q.slots[index]; s.state == slotFetching && q.state != queueDead {
				q.execute(s)
			}
		case workProbe:
			q.progress.Add(1)
			if q.state != queueDead {
				q.probed()
			}
		case workSend:
			q.progress.Add(1)
			if s := &q.slots[index]; s.state == slotResponding {
				q.release(s)
			}
		}
	}
	if q.ctrl != nil && !q.ctrl.traffic.Load() {
		q.ctrl.traffic.Store(true)
	}
}

// resume goes on with a slot that was elsewhere.
func (q *queue) resume(s *slot) {
	s.posted = false // nobody posts it again before it goes elsewhere again
	switch s.state {
	case slotWaitBuffer:
		s.data, s.waiter.Buf = s.waiter.Buf, bufpool.Buf{}
		if q.state == queueDead {
			q.release(s)
			return
		}
		q.haveBuffer(s)
	case slotExecuting:
		q.finish(s)
	case slotParked:
		q.parked--
		q.answer(s)
	}
}

// flush posts what was gathered: first the receives, so that a host that sees an
// answer can send the next command.
func (q *queue) flush() {
	recvs, sends := q.recvWRs, q.sendWRs
	q.recvWRs, q.sendWRs = recvs[:0], sends[:0]
	if q.state == queueDead {
		return
	}
	if len(recvs) > 0 {
		if err := q.qp.PostRecv(recvs); err != nil {
			q.broken(err)
			return
		}
	}
	if len(sends) > 0 {
		if err := q.qp.PostSend(sends); err != nil {
			q.broken(err)
		}
	}
}

// settle does what is due when the inbox was handled.
func (q *queue) settle() {
	q.waiting.Store(int32(q.moving))
	switch {
	case q.state == queueDead && q.inUse == 0:
		closeOnce(q.drained)
	case q.state == queueDraining && q.inUse == q.parked:
		closeOnce(q.quiet)
	}
}

func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// broken is the end of answers: the QP has failed, or the peer does not keep to the
// protocol.
func (q *queue) broken(err error) {
	if q.state == queueDead {
		return
	}
	q.state = queueDead
	q.cut(err)
}

// take gets a free slot, or nil.
func (q *queue) take() *slot {
	s := q.free
	if s == nil {
		return nil
	}
	q.free, s.next = s.next, nil
	q.inUse++
	s.enter(slotReceived)
	return s
}

// release frees a slot with all that it holds, and gives it to a capsule that
// waits for one.
func (q *queue) release(s *slot) {
	q.freeBuffer(s)
	if s.ns != nil {
		s.ns.release()
		s.ns = nil
	}
	s.payload, s.request = nil, request{}
	s.enter(slotFree)
	s.next, q.free = q.free, s
	q.inUse--
	if len(q.early) > 0 && q.state != queueDead {
		c := q.early[0]
		q.early = append(q.early[:0], q.early[1:]...)
		q.receive(c)
	}
}

// die makes the queue give up all that does not come back by itself. The QP and
// the CQ are gone: what they worked on is free.
func (q *queue) die() {
	q.state = queueDead
	q.early = nil
	q.endProbes()
	for i := range q.slots {
		s := &q.slots[i]
		switch s.state {
		case slotFetching, slotResponding:
			q.release(s)
		case slotParked:
			if q.withhold(s) {
				q.release(s)
			}
		case slotWaitBuffer:
			// A slot that was just lent its buffer comes through the inbox.
			if q.pool.Cancel(&s.waiter) {
				q.release(s)
			}
		}
	}
	q.parked = 0
}

// drain lets nothing new begin.
func (q *queue) drain() {
	if q.state < queueDraining {
		q.state = queueDraining
		q.early = nil
	}
}

// markCID notes that an identifier is in use; false if it was.
func (q *queue) markCID(cid uint16) bool {
	word, bit := &q.cids[cid/64], uint64(1)<<(cid%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}

func (q *queue) clearCID(cid uint16) { q.cids[cid/64] &^= 1 << (cid % 64) }
