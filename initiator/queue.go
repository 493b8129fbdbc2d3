package initiator

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"rbd/verbs"
)

// Queue is one submission and completion queue pair of a controller: an RDMA
// connection of its own. It outlives the connection: while there is none, requests
// wait in it (see the package documentation). All methods are safe for concurrent
// use.
type Queue struct {
	id  uint16
	ctl queueControl

	// mu guards what follows. It is never held while the transport runs.
	mu sync.Mutex
	// conn is the newest connection, which may have ended.
	conn *queueConn
	// holding: requests wait in held, because there is no connection that they may
	// use. Commands of the controller pass.
	holding bool
	held    line
	// via, if set, is the queue that does this one's work: the target has granted
	// fewer queues than there are.
	via *Queue
	// refuse is why no more requests are taken, nil while they are.
	refuse error
	// seq numbers the requests in the order of their submission.
	seq uint64
	// posting: a Submit is posting, and takes what others add meanwhile.
	posting bool
	// submitWRs and submitDone are the scratch of the Submit that is posting.
	submitWRs  []verbs.SendWR
	submitDone []*Request

	// deliver keeps calls of owners apart: it is held while Complete runs for requests
	// that were submitted to this queue, whichever queue they went by.
	deliver sync.Mutex
	// group is the scratch of deliver.
	group []*Request
}

// queueControl is what a queue needs of its controller.
type queueControl struct {
	// tick is a coarse clock.
	tick *atomic.Uint32
	// namespaces finds the namespaces of requests.
	namespaces *namespaceTable
	// lose notes that the request's connection was lost, and says whether it may
	// wait for another one.
	lose func(*Request) bool
}

// newQueue makes a queue that may have up to slots commands out at once. It has no
// connection yet.
func newQueue(id uint16, slots int, ctl queueControl) *Queue {
	return &Queue{
		id: id, ctl: ctl,
		submitWRs:  make([]verbs.SendWR, 0, slots),
		submitDone: make([]*Request, 0, slots),
		group:      make([]*Request, 0, slots),
	}
}

// ID is the queue identifier: 0 for the admin queue, from 1 on for I/O queues.
func (q *Queue) ID() int { return int(q.id) }

// Slots is how many commands can be out at once. More requests may be submitted:
// they wait. A new connection may have another number.
func (q *Queue) Slots() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.conn.x.slots)
}

// Submit takes requests and never blocks. Those that find a slot are sent at
// once, all with one post; the others wait for one, in order. Each comes back
// once, by its Owner's Complete on another goroutine or, if it is answered while
// this one is still sending, on this one: who submits must not hold what its
// Complete waits for. So does, with its error, one that can't be sent.
func (q *Queue) Submit(reqs []*Request) {
	for _, r := range reqs {
		r.home = q
	}
	q.pass(reqs)
}

// pass is Submit for requests that have a home.
func (q *Queue) pass(reqs []*Request) {
	var refused []*Request
	q.mu.Lock()
	if via := q.via; via != nil {
		q.mu.Unlock()
		via.pass(reqs)
		return
	}
	for _, r := range reqs {
		r.enter(q)
		if r.Err = q.admit(r); r.Err != nil {
			refused = append(refused, r)
			continue
		}
		q.place(r)
	}
	q.post()
	if len(refused) > 0 {
		go q.complete(refused) // not here: the owner may hold its lock
	}
}

// admit checks a request and prepares it. The caller holds mu.
func (q *Queue) admit(r *Request) error {
	r.done, r.chunk, r.lost, r.repeated, r.flushing = 0, 0, 0, 0, false
	if r.Op == opCommand {
		if q.conn.dead {
			return q.conn.why
		}
		return nil
	}
	if q.refuse != nil {
		return q.refuse
	}
	r.cmd = nil
	if q.holding && r.unwanted() {
		return ErrConnectionLost
	}
	return q.check(r)
}

// check compares a request with its namespace as it is now. The caller holds mu.
func (q *Queue) check(r *Request) error {
	ns := q.ctl.namespaces.get(r.NSID)
	if ns == nil {
		return fmt.Errorf("namespace %d: %w", r.NSID, ErrNoNamespace)
	}
	r.info = ns.info.Load()
	r.zeroesAsData = q.conn.x.noZeroes[r.NSID]
	return r.info.check(r)
}

// place puts an admitted request where it belongs. The caller holds mu.
func (q *Queue) place(r *Request) {
	q.seq++
	r.seq = q.seq
	if q.holding && r.Op != opCommand {
		q.held.enqueue(r)
		return
	}
	q.conn.x.enqueue(r)
}

// post sends what waits. The caller holds mu; post unlocks it. One goroutine at
// a time posts: others leave their requests in the line, and it takes them along.
func (q *Queue) post() {
	if q.posting {
		q.mu.Unlock()
		return
	}
	q.posting = true
	var l *queueConn
	for {
		l = q.conn
		done := q.overtaken(l)
		wrs := l.fill(q.submitWRs)
		if len(wrs) == 0 && len(done) == 0 {
			break
		}
		q.mu.Unlock()
		if len(wrs) > 0 {
			l.send(wrs)
		}
		if len(done) > 0 {
			q.completeOwn(done)
			q.deliver.Unlock()
		}
		q.mu.Lock()
	}
	q.posting = false
	stuck := l.x.stuck() || len(l.x.finished) > 0
	q.mu.Unlock()
	if stuck {
		l.wakeMinder()
	}
}

// overtaken takes the requests whose answers have overtaken the completions of
// their SENDs: a peer that runs on this processor answers before the system call
// that has sent the capsule returns. The caller holds mu, and gets deliver with the
// requests, to complete them. If somebody else has it, which may be a Complete that
// submits, the requests are left to the minder, and so are those of other queues: a
// Complete of theirs may be what submits here.
func (q *Queue) overtaken(l *queueConn) []*Request {
	if l.x.held == 0 || l.dead || !q.deliver.TryLock() {
		return nil
	}
	l.reap()
	l.pace()
	clear(q.submitDone)
	q.submitDone = l.x.takeOf(q, q.submitDone[:0])
	if len(q.submitDone) == 0 {
		q.deliver.Unlock()
	}
	return q.submitDone
}

// complete gives requests back to their owners. Those that came by this queue
// because theirs had no connection are told under their own queue's lock: it may be
// telling others of the same owner. No two of these locks are waited for at a time.
// The slice is used up.
func (q *Queue) complete(reqs []*Request) {
	for len(reqs) > 0 {
		home := reqs[0].home
		home.deliver.Lock()
		reqs = home.completeOwn(reqs)
		home.deliver.Unlock()
	}
}

// completeOwn gives the requests that were submitted to this queue back to their
// owners, all of one owner together, and returns the others. The caller holds
// deliver. The slice is used up.
func (q *Queue) completeOwn(reqs []*Request) (others []*Request) {
	for {
		group, rest := q.group[:0], reqs[:0]
		for _, r := range reqs {
			if r.home == q && (len(group) == 0 || r.Owner == group[0].Owner) {
				group = append(group, r)
			} else {
				rest = append(rest, r)
			}
		}
		if len(group) == 0 {
			return rest
		}
		group[0].Owner.Complete(group)
		clear(group)
		q.group, reqs = group, rest
	}
}

// withdraw takes back a request that waits in this queue, completes it with err, and
// says whether there was one.
func (q *Queue) withdraw(r *Request, err error) bool {
	q.mu.Lock()
	found := q.held.withdraw(r) || q.conn.x.withdraw(r)
	q.mu.Unlock()
	if found {
		r.Err = err
		q.complete([]*Request{r})
	}
	return found
}

// overdue is the error of a request that has been out for more than limit ticks,
// or nil.
func (q *Queue) overdue(limit uint32) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.conn.x.overdue(q.ctl.tick.Load(), limit)
	if r == nil {
		return nil
	}
	return fmt.Errorf("queue %d: %s not answered: %w", q.id, r.command(), ErrTimeout)
}

// traffic is what has gone over the connection.
func (q *Queue) traffic() traffic {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.conn.x.traffic
}

// drain waits until no request is out or waiting, or ctx ends.
func (q *Queue) drain(ctx context.Context) error {
	for !q.idle() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for requests on queue %d: %w", q.id, context.Cause(ctx))
		case <-time.After(5 * time.Millisecond):
		}
	}
	return nil
}

// idle says that nothing is out or waiting.
func (q *Queue) idle() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held.head == nil && q.conn.x.idle()
}
