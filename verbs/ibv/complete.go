package ibv

import (
	"fmt"
	"time"

	"rbd/verbs"
)

// workError is why a connection ended: a work request that failed.
type workError struct {
	queue  string // "send" or "receive"
	status verbs.WCStatus
	vendor uint32
}

func (e *workError) Error() string {
	hint := ""
	switch e.status {
	case verbs.WCRetryExcErr:
		hint = ": the peer does not acknowledge; it, its link or the path to it is down, or its MTU is smaller than that of this port"
	case verbs.WCRNRRetryExcErr:
		hint = ": the peer has posted no receive"
	}
	return fmt.Sprintf("a %s request failed: %v (vendor error %#x)%s", e.queue, e.status, e.vendor, hint)
}

// complete adds the completion of a record of the device, with the caller's ID. The
// mutex of the CQ is held.
func (q *qp) complete(r *wcRecord, batch []verbs.WC) []verbs.WC {
	recv := r.id&recvBit != 0
	switch {
	case recv:
		if id, ok := q.rq.retire(uint32(r.id)); ok {
			batch = q.add(id, true, r, batch)
		}
	case q.order != nil:
		batch = q.completeInOrder(r, batch)
	default:
		if id, ok := q.sq.retire(uint32(r.id)); ok {
			batch = q.add(id, false, r, batch)
		}
	}
	if q.State() == verbs.QPStateERR {
		q.mu.Lock()
		q.flushRest()
		q.mu.Unlock()
	}
	return batch
}

// add makes one completion.
func (q *qp) add(id uint64, recv bool, r *wcRecord, batch []verbs.WC) []verbs.WC {
	wc := verbs.WC{ID: id, Status: verbs.WCStatus(r.status), QPNum: q.num}
	switch {
	case wc.Status != verbs.WCSuccess:
		wc.VendorErr = r.vendorErr
		q.noteError(recv, &wc)
	case recv:
		wc.ByteLen, wc.Opcode = r.byteLen, verbs.WCRecv
		if r.flags&wcWithInv != 0 {
			wc.Flags, wc.InvalidatedRKey = verbs.WCWithInv, r.invalidated
		}
	default:
		wc.ByteLen, wc.Opcode = r.byteLen, verbs.WCOpcode(r.opcode)
	}
	return append(batch, wc)
}

// noteError acts on a completion with an error.
func (q *qp) noteError(recv bool, wc *verbs.WC) {
	if q.State() == verbs.QPStateERR {
		return
	}
	if wc.Status == verbs.WCWRFlushErr {
		// Something put the QP into ERR, and an event will say what; if none
		// comes, this is all that is known.
		q.id.suspect()
		return
	}
	e := &workError{queue: "send", status: wc.Status, vendor: wc.VendorErr}
	if recv {
		e.queue = "receive"
	}
	q.mu.Lock()
	if q.cause == nil {
		q.cause = e
	}
	q.mu.Unlock()
	q.id.failLater(e)
}

// guard asks the device for the QP's state if sends are outstanding and none has
// completed since the last look.
func (q *qp) guard() {
	q.mu.Lock()
	head := q.sq.head.Load()
	stuck := q.State() == verbs.QPStateRTS && head == q.guarded && head != q.sq.tail.Load()
	q.guarded = head
	q.mu.Unlock()
	if stuck {
		q.examine()
	}
}

// examine ends the connection if the device has put the QP into ERR by itself. The
// cause is a completion that nobody has taken, if there is one.
func (q *qp) examine() {
	if !q.brokenBefore() {
		return
	}
	q.sendCQ.drain(nil)
	q.recvCQ.drain(nil)
	q.mu.Lock()
	cause := q.cause
	q.mu.Unlock()
	if cause == nil {
		cause = errQPError
	}
	q.id.fail(cause)
}

// enterERR moves the QP to ERR, here and at the device. The mutex is held.
func (q *qp) enterERR() {
	if q.destroyed || q.State() == verbs.QPStateERR {
		return
	}
	q.state.Store(uint32(verbs.QPStateERR))
	q.held = nil
	// A device that is gone, or has done so itself, may refuse.
	_ = q.dev.lib.setQPError(q.native)
	q.flushRest()
	if !q.sq.idle() || !q.rq.idle() {
		q.flushing = time.AfterFunc(flushTime, q.bury)
	}
}

// toERR is enterERR for those without the mutex.
func (q *qp) toERR() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.enterERR()
}

// flushRest completes what the device never got, once it has completed all that it
// has. The QP is in ERR and the mutex held.
func (q *qp) flushRest() {
	if q.destroyed {
		return
	}
	for _, f := range []struct {
		w *workQueue
		c *cq
	}{{&q.sq, q.sendCQ}, {&q.rq, q.recvCQ}} {
		if f.w.idle() {
			q.flush(f.w, f.c)
		}
	}
}

// flush completes all of a queue's requests.
func (q *qp) flush(w *workQueue, c *cq) {
	tail := w.tail.Load()
	if w.head.Load() == tail {
		return
	}
	for n := w.head.Load(); n != tail; n++ {
		c.add(verbs.WC{ID: w.at(n), Status: verbs.WCWRFlushErr, QPNum: q.num})
	}
	w.given = tail
	w.head.Store(tail)
	c.kick()
}

// bury ends a QP in ERR that its device does not flush.
func (q *qp) bury() {
	q.sendCQ.drain(nil)
	q.recvCQ.drain(nil)
	q.mu.Lock()
	pending := !q.destroyed && (!q.sq.idle() || !q.rq.idle())
	q.mu.Unlock()
	if pending {
		q.abandon()
	}
}

// abandon takes the QP from the device and flushes what is left. It is in ERR, or
// somebody is about to put it there who waits for a post: nothing may use it when it
// is taken away.
func (q *qp) abandon() {
	q.toERR()
	q.sendCQ.drain(nil)
	q.recvCQ.drain(nil)
	q.unmakeNative()
	q.sendCQ.drain(func() { q.sq.dead.Store(true) })
	q.recvCQ.drain(func() { q.rq.dead.Store(true) })
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.destroyed {
		q.flush(&q.sq, q.sendCQ)
		q.flush(&q.rq, q.recvCQ)
	}
}
