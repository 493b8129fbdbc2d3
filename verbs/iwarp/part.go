package iwarp

import (
	"math"
	"time"
)

const (
	// ackTime is how long the peer's TCP may acknowledge nothing of what the active
	// side has left for it when that is destroyed.
	ackTime = 100 * time.Millisecond
	// While the end waits it looks after ackFirst, and then less and less often.
	ackFirst = 200 * time.Microsecond
	ackLast  = 20 * time.Millisecond
	// finSize is what the end of the stream counts among the bytes that are not
	// acknowledged.
	finSize = 1
)

// part ends the stream, also within an FPDU: the peer gets all that TCP has taken,
// and notices where it breaks off. The two sides differ in what must not be.
//
// The passive side, a target, has answered: its answers must not get lost. A byte of
// the peer that comes when the socket is closed makes TCP throw away what the peer's
// has not got yet; so that waits. Nothing of the QP is needed for it: Destroy doesn't
// wait, only that of the CMID does.
//
// The active side has asked, and asks anew on another connection when this one fails:
// what it asked here must not be done after that. Destroy doesn't leave a socket
// behind whose TCP still sends.
func (q *qp) part() {
	err := q.sock.CloseWrite()
	q.ended(q.why.cause)
	switch {
	case err != nil: // the connection is gone
		q.sock.Close()
	case q.active:
		q.settle()
	default:
		q.farewell.Go(q.linger)
	}
}

// linger is the end of the passive side. When it closes the socket before the peer's
// TCP has everything, the kernel goes on sending.
func (q *qp) linger() {
	q.delivered()
	q.sock.Close()
}

// settle is the end of the active side. When it closes the socket before the peer's
// TCP has everything, that resets the connection (see establish).
func (q *qp) settle() {
	if q.delivered() {
		_ = q.sock.SetLinger(-1) // the end of the stream may have to be sent again
	}
	q.sock.Close()
}

// delivered waits until the peer's TCP has all but the end of the stream; false if that
// makes no headway. Meanwhile it reads and forgets.
func (q *qp) delivered() bool {
	now := time.Now()
	last, moved, end := math.MaxInt, now, now.Add(q.dev.opts.lingerTime)
	for pause := ackFirst; now.Before(end); pause = min(2*pause, ackLast) {
		n, again, err := q.sock.Unacked()
		patience := q.dev.opts.lingerTime / 2
		if q.active {
			q.mu.Lock()
			if again = again && q.destroyed; q.destroyed {
				patience = ackTime
			}
			q.mu.Unlock()
		}
		switch {
		case err != nil || again: // TCP sends it again, and gets no answer
			return false
		case n <= finSize:
			return true
		case n < last:
			last, moved = n, now
		case now.Sub(moved) > patience:
			return false
		}
		q.rx.discard(q.sock)
		time.Sleep(pause)
		now = time.Now()
	}
	return false
}
