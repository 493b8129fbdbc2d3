package initiator

import (
	"cmp"
	"slices"
)

// What happens to a queue's requests between two connections: they are held, and
// then sent again or given up. The controller decides.

// hold makes requests wait from now on.
func (q *Queue) hold() {
	q.mu.Lock()
	q.holding, q.via = true, nil
	q.mu.Unlock()
}

// close refuses further requests with err. Those that are out or wait go on.
func (q *Queue) close(err error) {
	q.mu.Lock()
	q.refuse = err
	q.mu.Unlock()
}

// giveUp ends what is held with err, and refuses further requests with it. It may
// be called while the connection is being ended: what was sent is not held yet.
func (q *Queue) giveUp(err error) {
	q.mu.Lock()
	q.refuse, q.holding, q.via = err, false, nil
	over := q.held.takeAll()
	q.mu.Unlock()
	for _, r := range over {
		r.Err = err
	}
	q.complete(over)
}

// dropUnwanted ends what is held and nobody waits for any more.
func (q *Queue) dropUnwanted() {
	q.mu.Lock()
	over := q.held.takeUnwanted()
	q.mu.Unlock()
	for _, r := range over {
		r.Err = ErrConnectionLost
	}
	q.complete(over)
}

// retreat takes the requests out of the connection, which has ended, and holds
// them, in the order in which they were submitted. Those that may not wait, or
// that nobody waits for, end with err: they must not be sent again.
func (q *Queue) retreat(err error) {
	q.mu.Lock()
	all := q.conn.x.retreat()
	over := q.conn.x.take(nil) // answered before the end, with their outcome
	keep := q.held.takeAll()
	for _, r := range all {
		if q.holding && r.Op != opCommand && !r.unwanted() && q.ctl.lose(r) {
			r.again()
			keep = append(keep, r)
			continue
		}
		r.Err = err
		over = append(over, r)
	}
	slices.SortFunc(keep, func(a, b *Request) int { return cmp.Compare(a.seq, b.seq) })
	for _, r := range keep {
		q.held.enqueue(r)
	}
	q.mu.Unlock()
	q.complete(over)
}

// resume sends what was held: by the connection that the queue has now, or by via
// if it has none. Each request is compared with its namespace as it is now.
func (q *Queue) resume(via *Queue) {
	q.mu.Lock()
	q.holding, q.refuse, q.via = false, nil, via
	held := q.held.takeAll()
	if via != nil {
		q.mu.Unlock()
		via.adopt(held)
		return
	}
	q.adoptLocked(held)
}

// adopt takes over requests that were held.
func (q *Queue) adopt(held []*Request) {
	q.mu.Lock()
	q.adoptLocked(held)
}

// adoptLocked is adopt of a caller that holds mu, which it unlocks.
func (q *Queue) adoptLocked(held []*Request) {
	var over []*Request
	for _, r := range held {
		r.enter(q) // before it is asked whether it is wanted, see call.withdraw
		err := q.refuse
		switch {
		case r.unwanted():
			err = ErrConnectionLost
		case err == nil:
			err = q.check(r)
		}
		if err != nil {
			r.Err = err
			over = append(over, r)
			continue
		}
		q.place(r)
	}
	q.post()
	q.complete(over)
}
