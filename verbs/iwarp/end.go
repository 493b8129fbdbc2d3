package iwarp

import (
	"errors"
	"fmt"
	"os"
	"time"

	"rbd/verbs"
	"rbd/verbs/iwarp/internal/frame"
)

// fail moves the QP to ERR; with Destroy it is the only way there. The receiver
// does the rest: see bury.
func (q *qp) fail(f *fault) {
	q.mu.Lock()
	q.failLocked(f)
	q.mu.Unlock()
}

func (q *qp) failLocked(f *fault) {
	if q.state == verbs.QPStateERR {
		return
	}
	q.state, q.why = verbs.QPStateERR, *f
	if q.txErr != nil && errors.Is(f.cause, os.ErrDeadlineExceeded) {
		q.why.cause = q.txErr
	}
	q.interrupt()
	if !q.started {
		q.flush()
		q.kick()
	}
}

// disconnect ends the connection in good order: what the socket takes at once
// still goes out.
func (q *qp) disconnect() error {
	q.mu.Lock()
	if !q.started {
		q.mu.Unlock()
		return fmt.Errorf("disconnect: %w", verbs.ErrState)
	}
	mine := !q.txBusy && q.ready()
	if mine {
		q.txBusy = true
	}
	q.mu.Unlock()
	if mine {
		q.transmit(false)
	}
	q.fail(&fault{cause: verbs.ErrDisconnected})
	return nil
}

// bury is the receiver's last act: it tells the peer, completes what is queued,
// and ends the stream.
func (q *qp) bury() {
	q.mu.Lock()
	for q.txBusy {
		q.txIdle.Wait()
	}
	// In ERR nobody takes the transmit token again.
	broken := q.tx.unfinished()
	why := q.why
	if why.told != nil {
		q.blame(why.told)
	}
	q.parting = true
	// Nobody waits for the socket any more.
	_ = q.sock.SetReadDeadline(time.Time{})
	_ = q.sock.SetWriteDeadline(time.Time{})
	q.mu.Unlock()
	if why.term != nil && !broken {
		q.tx.terminate(q.sock, why.term)
	}
	q.mu.Lock()
	if !q.destroyed {
		q.flush()
	}
	q.mu.Unlock()
	for q.serveCQs() {
	}
	q.part()
}

// flush completes everything queued, in the order it was posted. The caller
// holds mu, and no goroutine transmits or receives.
func (q *qp) flush() {
	q.flushed = true
	for ; q.sq.head != q.sq.tail; q.sq.head++ {
		w := q.sq.at(q.sq.head)
		wc := verbs.WC{ID: w.wr.ID, Status: flushStatus(w.status), QPNum: q.num, VendorErr: w.vendor}
		q.sendCQ.add(&wc)
	}
	for ; q.rq.head != q.rq.tail; q.rq.head++ {
		w := q.rq.at(q.rq.head)
		wc := verbs.WC{ID: w.id, Status: flushStatus(w.status), QPNum: q.num, Opcode: verbs.WCRecv}
		q.recvCQ.add(&wc)
	}
}

func flushStatus(s verbs.WCStatus) verbs.WCStatus {
	if s == verbs.WCSuccess {
		return verbs.WCWRFlushErr
	}
	return s
}

// blame gives the request that a Terminate complains of its status: the one with
// the offending message's number, or, when a read was refused without saying
// which, the oldest read. The caller holds mu, and nobody transmits.
func (q *qp) blame(e *remoteError) {
	h, known := e.Offender()
	for i := q.sq.head; i != q.sq.tail; i++ {
		w := q.sq.at(i)
		read := w.wr.Opcode == verbs.WRRDMARead
		switch {
		case w.msn == 0: // not begun
		case known && read && h.QN == frame.QueueReadRequest && w.msn == h.MSN,
			known && !read && h.QN == frame.QueueSend && w.msn == h.MSN,
			!known && read && e.Layer == 0 && e.Type == 1:
			w.status, w.vendor = e.status(), e.Number()
			return
		}
	}
}

// unhold lets the passive side send, now that the peer's first FPDU has come.
func (q *qp) unhold() {
	q.mu.Lock()
	q.held = false
	q.mu.Unlock()
}
