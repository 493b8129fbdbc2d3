package initiator

import (
	"errors"
	"time"

	"rbd/wire"
)

// A controller that answers with an error and without Do Not Retry may succeed when
// it gets the command again. A request whose command is answered so is sent again
// after a pause, which doubles each time, as a new command: the one before is over.
// Linux does so too, without a pause (nvme_decide_disposition, nvme_max_retries). How
// long to wait could be told by the controller (CRD), if that were enabled.
const (
	maxRepeats = 5
	firstPause = 100 * time.Millisecond // the five are 3.1 s
)

// repeats says that the command of a request that was answered with an error is to
// be sent again. A flush is repeated only after a status that says that it was not
// done: after another, the data may be lost, and a second flush succeed without it.
func (r *Request) repeats(s wire.Status) bool {
	if s.DNR() || r.repeated >= maxRepeats || r.unwanted() {
		return false
	}
	return r.command() != OpFlush || errors.Is(s, wire.StatusCommandInterrupted) || errors.Is(s, wire.StatusNamespaceNotReady)
}

// pace begins the pauses of the requests that were interrupted since the last time.
// The caller holds the queue's mu.
func (l *queueConn) pace() {
	for l.x.interrupted.head != nil {
		r := l.x.interrupted.dequeue()
		l.x.paused.enqueue(r)
		time.AfterFunc(firstPause<<(r.repeated-1), func() { l.repeat(r) })
	}
}

// repeat sends a request again whose pause is over, unless it has been taken back
// meanwhile: it may be no request of this connection any more.
func (l *queueConn) repeat(r *Request) {
	q := l.q
	q.mu.Lock()
	if l.dead || !l.x.paused.withdraw(r) {
		q.mu.Unlock()
		return
	}
	l.x.enqueue(r)
	q.post()
}
