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
	if q.tx.sqOpen || q.tx.fault != nil || q.irq.head != q.irq.tail {
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
// holds. When the socket is full, or it takes too long, it passes the token to
// the worker; the worker itself waits.
func (q *qp) transmit(worker bool) {
	for turn := 0; ; turn++ {
		if !worker && turn == maxTurns {
			q.passToken()
			return
		}
		switch {
		case !q.tx.unsent():
			if !q.nextBatch() {
				return
			}
		case !q.tx.pin(): // after a wait
			q.regionLost()
			return
		}
		err := q.tx.write(q.sock)
		q.account()
		switch {
		case err == nil:
			q.tx.reset()
		case !errors.Is(err, sockio.ErrWouldBlock):
			q.sendFailed(err)
			return
		case !worker:
			q.passToken()
			return
		default:
			q.tx.unpin()
			for q.serveCQs() { // the wait may be long
			}
			if err := q.sock.WaitWritable(); err != nil {
				q.sendFailed(err)
				return
			}
		}
		for worker && q.serveCQs() {
		}
	}
}

// passToken gives the transmit token to the worker.
func (q *qp) passToken() {
	q.tx.unpin()
	q.mu.Lock()
	q.passed = true
	q.mu.Unlock()
	q.kick()
}

// sendFailed ends transmission, and the connection unless the receiver does it
// soon: the peer's Terminate, which tells the reason, may still be unread.
func (q *qp) sendFailed(err error) {
	q.tx.unpin()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.txErr = fmt.Errorf("connection lost: %w", err)
	if q.state != verbs.QPStateERR {
		// An error means that the socket is closed: then the receiver ends anyway.
		_ = q.sock.SetReadDeadline(time.Now().Add(q.dev.opts.lingerTime))
	}
	q.releaseToken()
}

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
	sqTail, irqHead, irqTail := q.sq.tail, q.irq.head, q.irq.tail
	if q.state != verbs.QPStateRTS { // SQD: only the request that has begun
		if sqTail = q.sq.next; q.tx.sqOpen {
			sqTail++
		}
	}
	q.mu.Unlock()
	f := q.fill(sqTail, irqTail)
	if f == nil && q.tx.irqNext == irqHead {
		return true
	}
	q.mu.Lock()
	if f == nil {
		// Their places are free now: the peer may ask anew as soon as it has got the
		// last byte of an answer.
		q.irq.head = q.tx.irqNext
		q.mu.Unlock()
		return true
	}
	q.tx.reset()
	q.failLocked(f)
	q.releaseToken()
	q.mu.Unlock()
	return false
}

// regionLost ends the connection because a region of the batch has ended while
// the socket was full. The first request that used it failed.
func (q *qp) regionLost() {
	f := &fault{cause: errors.New("memory region ended while the peer was reading it")}
	q.mu.Lock()
	defer q.mu.Unlock()
	end := q.sq.next
	if q.tx.sqOpen {
		end++
	}
	for i := q.unaccounted(); i != end; i++ {
		if g := q.check(q.sq.at(i)); g != nil {
			f = g
			break
		}
	}
	q.failLocked(f)
	q.releaseToken()
}

// unaccounted is the first request that was not counted as sent. RDMA READs are
// perhaps not even there any more: a fast peer may have answered. The caller
// holds mu and the token.
func (q *qp) unaccounted() uint32 {
	if int32(q.sq.head-q.tx.sqSent) > 0 {
		q.tx.sqSent = q.sq.head
	}
	return q.tx.sqSent
}

// account marks the messages as done that TCP has taken whole.
func (q *qp) account() {
	t := &q.tx
	sent, ok := t.taken()
	if !ok {
		return
	}
	q.mu.Lock()
	for i := q.unaccounted(); int32(sent.sq-i) > 0; i++ {
		if w := q.sq.at(i); w.wr.Opcode != verbs.WRRDMARead {
			w.done = true
		}
		t.sqSent = i + 1
	}
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
