package initiator

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"rbd/verbs"
)

// Queue is one submission and completion queue pair of a controller: an RDMA
// connection of its own. All methods are safe for concurrent use.
type Queue struct {
	id       uint16
	ctl      queueControl
	capsules capsules
	rcv      responses
	// conn is the connection; its parts are set before the first request and gone
	// after the last.
	conn queueConn

	// mu guards what follows. It is never held while the transport runs.
	mu sync.Mutex
	x  *exchange
	// refuse is why no more requests are taken, nil while they are.
	refuse error
	// dead: the connection is over, nothing is posted any more.
	dead bool
	// posting: a Submit is posting, and takes what others add meanwhile.
	posting bool
	// submitWRs is the scratch of the Submit that is posting.
	submitWRs []verbs.SendWR
	sendWCs   []verbs.WC

	// deliver keeps calls of owners apart; it is held while Complete runs.
	deliver sync.Mutex
	// group is the scratch of deliver.
	group []*Request

	// Of the receive handler alone.
	handlerWRs  []verbs.SendWR
	handlerDone []*Request

	// Of the minder alone.
	minderWRs  []verbs.SendWR
	minderDone []*Request
	kick       chan struct{}
	minder     sync.WaitGroup
	stop       context.CancelFunc
}

// queueControl is what a queue needs of its controller.
type queueControl struct {
	// tick is a coarse clock.
	tick *atomic.Uint32
	// namespaces finds the namespaces of requests.
	namespaces *namespaceTable
	// fail reports that the connection can't be used any more. It does not block.
	fail func(error)
}

// newQueue makes a queue that may have slots commands out at once. It has no
// connection yet.
func newQueue(id uint16, slots int, ctl queueControl) *Queue {
	return &Queue{
		id: id, ctl: ctl,
		x:           newExchange(slots),
		submitWRs:   make([]verbs.SendWR, 0, slots),
		handlerWRs:  make([]verbs.SendWR, 0, slots),
		minderWRs:   make([]verbs.SendWR, 0, slots),
		sendWCs:     make([]verbs.WC, slots),
		group:       make([]*Request, 0, slots),
		handlerDone: make([]*Request, 0, slots),
		minderDone:  make([]*Request, 0, slots),
		kick:        make(chan struct{}, 1),
	}
}

// ID is the queue identifier: 0 for the admin queue, from 1 on for I/O queues.
func (q *Queue) ID() int { return int(q.id) }

// Slots is how many commands can be out at once. More requests may be submitted:
// they wait.
func (q *Queue) Slots() int { return len(q.x.slots) }

// Submit takes requests and never blocks. Those that find a slot are sent at
// once, all with one post; the others wait for one, in order. Each comes back
// once, by its Owner's Complete on another goroutine, possibly before Submit
// returns; so does, with its error, one that can't be sent.
func (q *Queue) Submit(reqs []*Request) {
	var refused []*Request
	q.mu.Lock()
	for _, r := range reqs {
		if r.Err = q.admit(r); r.Err != nil {
			refused = append(refused, r)
			continue
		}
		q.x.enqueue(r)
	}
	q.post()
	if len(refused) > 0 {
		go q.complete(refused) // not here: the owner may hold its lock
	}
}

// admit checks a request and prepares it. The caller holds mu.
func (q *Queue) admit(r *Request) error {
	if q.refuse != nil {
		return q.refuse
	}
	r.done, r.chunk = 0, 0
	if r.Op == opCommand {
		return nil
	}
	r.cmd = nil
	ns := q.ctl.namespaces.get(r.NSID)
	if ns == nil {
		return fmt.Errorf("namespace %d: %w", r.NSID, ErrNoNamespace)
	}
	r.info = ns.info.Load()
	r.zeroesAsData = q.x.noZeroes[r.NSID]
	return r.info.check(r)
}

// post sends what waits. The caller holds mu; post unlocks it. One goroutine at
// a time posts: others leave their requests in the line, and it takes them along.
func (q *Queue) post() {
	if q.posting {
		q.mu.Unlock()
		return
	}
	q.posting = true
	for {
		wrs := q.fill(q.submitWRs)
		if len(wrs) == 0 {
			break
		}
		q.mu.Unlock()
		q.send(wrs)
		q.mu.Lock()
	}
	q.posting = false
	stuck := q.x.stuck()
	q.mu.Unlock()
	if stuck {
		q.wakeMinder()
	}
}

// fill gives slots to those that wait and builds their capsules. The caller
// holds mu.
func (q *Queue) fill(wrs []verbs.SendWR) []verbs.SendWR {
	wrs = wrs[:0]
	if q.dead {
		return wrs
	}
	for {
		i, r := q.x.next()
		if r == nil {
			return wrs
		}
		q.x.slots[i].tick = q.ctl.tick.Load()
		sges := q.capsules.build(q.x, i, r)
		wrs = append(wrs, verbs.SendWR{
			ID: uint64(q.x.cid(i)), Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGEs: sges,
		})
	}
}

// send posts capsules. An error ends the connection, and with it the requests.
func (q *Queue) send(wrs []verbs.SendWR) {
	if err := q.conn.qp.PostSend(wrs); err != nil {
		q.ctl.fail(fmt.Errorf("queue %d: %w", q.id, err))
	}
}

// reap takes the completions of sends. The caller holds mu.
func (q *Queue) reap() {
	for {
		n := q.conn.sendCQ.Poll(q.sendWCs)
		for i := range q.sendWCs[:n] {
			wc := &q.sendWCs[i]
			switch wc.Status {
			case verbs.WCSuccess:
				if err := q.x.sent(uint16(wc.ID)); err != nil {
					q.ctl.fail(fmt.Errorf("queue %d: %w", q.id, err))
					return
				}
			case verbs.WCWRFlushErr: // the end of the connection says why
			default:
				q.ctl.fail(fmt.Errorf("queue %d: %w", q.id,
					&WorkError{Work: "send command capsule", Status: wc.Status, VendorErr: wc.VendorErr}))
				return
			}
		}
		if n < len(q.sendWCs) {
			return
		}
	}
}

// complete gives requests back to their owners, all of one owner together. The
// slice is used up.
func (q *Queue) complete(reqs []*Request) {
	if len(reqs) == 0 {
		return
	}
	q.deliver.Lock()
	defer q.deliver.Unlock()
	for rest := reqs; len(rest) > 0; {
		owner := rest[0].Owner
		group, others := q.group[:0], rest[:0]
		for _, r := range rest {
			if r.Owner == owner {
				group = append(group, r)
			} else {
				others = append(others, r)
			}
		}
		owner.Complete(group)
		clear(group)
		q.group, rest = group, others
	}
}

// withdraw takes back a request that has not been sent, and completes it with err.
func (q *Queue) withdraw(r *Request, err error) {
	q.mu.Lock()
	found := q.x.withdraw(r)
	q.mu.Unlock()
	if found {
		r.Err = err
		q.complete([]*Request{r})
	}
}

// overdue is the error of a request that has been out for more than limit ticks,
// or nil.
func (q *Queue) overdue(limit uint32) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.x.overdue(q.ctl.tick.Load(), limit)
	if r == nil {
		return nil
	}
	return fmt.Errorf("queue %d: %s not answered: %w", q.id, r.Op, ErrTimeout)
}

// answers counts the answers that came.
func (q *Queue) answers() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.x.answers
}
