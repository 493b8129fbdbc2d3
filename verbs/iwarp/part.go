package iwarp

import (
	"math"
	"time"
)

const (
	// ackTime is how long the peer's TCP may acknowledge nothing of what the active
	// side has left for it.
	ackTime = 50 * time.Millisecond
	ackPoll = 500 * time.Microsecond
	// finSize is what the end of the stream counts among the bytes that are not
	// acknowledged.
	finSize = 1
)

// part ends the stream, also within an FPDU: the peer gets all that TCP has taken,
// and notices where it breaks off. The two sides differ in what must not be.
//
// The passive side, a target, has answered: its answers must not get lost. It closes
// the socket when the peer has closed its side, since a byte of the peer that comes
// later makes TCP throw away what the peer has not taken yet. Nothing of the QP is
// needed for that: Destroy doesn't wait for it, only that of the CMID does.
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

// linger waits for the peer's end and closes the socket.
func (q *qp) linger() {
	_ = q.sock.SetReadDeadline(time.Now().Add(q.dev.opts.lingerTime))
	q.rx.discard(q.sock)
	q.sock.Close()
}

// settle waits for the peer's end or Destroy, and closes the socket. If the peer's TCP
// has not got everything, that resets the connection (see establish).
func (q *qp) settle() {
	q.mu.Lock()
	if !q.destroyed {
		_ = q.sock.SetReadDeadline(time.Now().Add(q.dev.opts.lingerTime))
	}
	q.mu.Unlock()
	q.rx.discard(q.sock)
	if q.acknowledged() {
		_ = q.sock.SetLinger(-1) // the end of the stream may have to be sent again
	}
	q.sock.Close()
}

// acknowledged waits until the peer's TCP has all but the end of the stream; false if
// that makes no headway.
func (q *qp) acknowledged() bool {
	now := time.Now()
	last, moved, end := math.MaxInt, now, now.Add(q.dev.opts.lingerTime)
	for ; now.Before(end); now = time.Now() {
		n, again, err := q.sock.Unacked()
		switch {
		case err != nil || again:
			return false
		case n <= finSize:
			return true
		case n < last:
			last, moved = n, now
		case now.Sub(moved) > ackTime:
			return false
		}
		time.Sleep(ackPoll)
	}
	return false
}
