package iwarp

import (
	"errors"
	"fmt"
	"time"

	"rbd/internal/sockio"
	"rbd/verbs"
)

// tryTransmit transmits on the calling goroutine if there is something to do and
// nobody does it. It does not wait for the socket.
func (q *qp) tryTransmit() {
	q.mu.Lock()
	if q.txBusy || q.plugged > 0 || !q.ready() {
		q.mu.Unlock()
		return
	}
	q.txBusy = true
	q.mu.Unlock()
	q.transmit(false)
}

// ready says whether there is something to transmit. The caller holds mu, and
// the transmit token is free or its own.
func (q *qp) ready() bool {
	if q.state != verbs.QPStateRTS && q.state != verbs.QPStateSQD || q.held || q.txErr != nil {
		return false
	}
	if q.tx.sqOpen || q.irq.head != q.irq.tail {
		return true
	}
	return q.state == verbs.QPStateRTS && q.sq.next != q.sq.tail && !q.blocked(q.sq.at(q.sq.next))
}

// blocked says whether a request must wait for earlier RDMA READs. The caller
// holds mu.
func (q *qp) blocked(w *sendWQE) bool {
	if w.wr.Flags&verbs.SendFence != 0 && q.orq.count() > 0 {
		return true
	}
	return w.wr.Opcode == verbs.WRRDMARead && q.orq.cap > 0 && q.orq.full()
}

// transmit sends until nothing is ready, and returns the token, which the caller
// holds. When the socket is full it passes the token to the worker; the worker
// itself waits.
func (q *qp) transmit(worker bool) {
	for {
		if !q.tx.unsent() && !q.nextBatch() {
			return
		}
		err := q.tx.write(q.sock)
		switch {
		case err == nil:
			q.batchSent()
			if worker {
				q.serveCQs()
			}
			continue
		case !errors.Is(err, sockio.ErrWouldBlock):
		case !worker:
			q.mu.Lock()
			q.stalled = true
			q.mu.Unlock()
			q.kick()
			return
		default:
			q.tx.unpin()
			if err = q.sock.WaitWritable(); err == nil && q.tx.pin() {
				continue
			}
			if err == nil {
				err = errPinLost
			}
		}
		q.tx.unpin()
		q.sendFailed(err)
		return
	}
}

// sendFailed ends transmission, and the connection unless the receiver does it
// soon: the peer's Terminate, which tells the reason, may still be unread.
func (q *qp) sendFailed(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.txErr = fmt.Errorf("connection lost: %w", err)
	if q.state != verbs.QPStateERR {
		// An error means that the socket is closed: then the receiver ends anyway.
		_ = q.sock.SetReadDeadline(time.Now().Add(q.dev.opts.lingerTime))
	}
	q.releaseToken()
}

var errPinLost = errors.New("memory region ended while it was being sent")

// releaseToken returns the transmit token. The caller holds mu.
func (q *qp) releaseToken() {
	q.txBusy = false
	q.txIdle.Broadcast()
}

// nextBatch builds the next batch; without one it returns the token and false.
func (q *qp) nextBatch() bool {
	q.mu.Lock()
	if !q.ready() {
		q.releaseToken()
		q.mu.Unlock()
		return false
	}
	sqTail, irqTail := q.sq.tail, q.irq.tail
	if q.state != verbs.QPStateRTS { // SQD: only the request that has begun
		sqTail = q.sq.next
	}
	q.mu.Unlock()
	f := q.fill(sqTail, irqTail)
	if f == nil {
		return true
	}
	q.tx.reset()
	q.mu.Lock()
	q.failLocked(f)
	q.releaseToken()
	q.mu.Unlock()
	return false
}

// batchSent accounts for a batch that TCP has taken.
func (q *qp) batchSent() {
	t := &q.tx
	t.reset()
	q.mu.Lock()
	// RDMA READs of the batch may be completed already, by a fast peer.
	if int32(q.sq.head-t.sqSent) > 0 {
		t.sqSent = q.sq.head
	}
	for ; t.sqSent != q.sq.next; t.sqSent++ {
		if w := q.sq.at(t.sqSent); w.wr.Opcode != verbs.WRRDMARead {
			w.done = true
		}
	}
	q.irq.head = t.irqNext
	q.retire()
	q.mu.Unlock()
}

// retire completes the oldest requests as far as they are done. The caller holds
// mu.
func (q *qp) retire() {
	for q.sq.head != q.sq.tail {
		w := q.sq.at(q.sq.head)
		if !w.done {
			return
		}
		w.done = false
		q.sq.head++
		if !q.sigAll && w.wr.Flags&verbs.SendSignaled == 0 {
			continue
		}
		wc := verbs.WC{ID: w.wr.ID, Opcode: wcOpcodes[w.wr.Opcode], QPNum: q.num}
		if w.wr.Opcode == verbs.WRRDMARead {
			wc.ByteLen = uint32(w.length)
		}
		if !q.sendCQ.add(&wc) {
			q.failLocked(&fault{cause: errCQOverrun})
		}
	}
}

var wcOpcodes = [...]verbs.WCOpcode{verbs.WRSend: verbs.WCSend, verbs.WRSendWithInv: verbs.WCSend,
	verbs.WRRDMAWrite: verbs.WCRDMAWrite, verbs.WRRDMARead: verbs.WCRDMARead}
