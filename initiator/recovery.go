package initiator

import "time"

// recoveryAction is what is to be done now.
type recoveryAction uint8

const (
	recoveryWait recoveryAction = iota
	// recoveryTry: try to connect, and say with failed how it went if it did not.
	recoveryTry
	// recoveryGiveUp: end the requests that wait. Tries go on.
	recoveryGiveUp
)

// maxRefusals is how many tries in a row the target may refuse this host before
// requests end. One is not enough: a target that is being set up says for a moment
// that it does not know what it will have in the next.
const maxRefusals = 3

// tryTime is what requests give the first try, however long it had to wait, before
// they end.
const tryTime = 10 * time.Second

// recovery decides what is done about a lost connection, and when. It has no
// clock: it is told the time.
type recovery struct {
	// delay lies between the begins of two tries.
	delay time.Duration
	// deadline is when requests have waited long enough; zero: they wait for ever.
	deadline time.Time

	next     time.Time // the next try, if none is out
	begun    time.Time // the last try
	out      bool      // a try is out
	tries    int
	refusals int // in a row
	givenUp  bool
}

// newRecovery begins with a loss at now. The first try is not made before the time
// first. Requests wait for limit, but not less than the first try may take; if limit
// is negative, for ever.
func newRecovery(delay, limit time.Duration, now, first time.Time) recovery {
	r := recovery{delay: delay, next: first}
	if limit < 0 {
		return r
	}
	r.deadline = now.Add(limit)
	if tried := first.Add(min(limit, tryTime)); r.deadline.Before(tried) {
		r.deadline = tried
	}
	return r
}

// step says what to do now, and when to ask again if nothing happens.
func (r *recovery) step(now time.Time) (recoveryAction, time.Duration) {
	late := !r.deadline.IsZero() && !now.Before(r.deadline)
	if !r.givenUp && (late || r.refusals >= maxRefusals) {
		r.givenUp = true
		return recoveryGiveUp, 0
	}
	if !r.out && !now.Before(r.next) {
		r.out, r.begun = true, now
		r.tries++
		return recoveryTry, 0
	}
	wait := forever
	if !r.out {
		wait = r.next.Sub(now)
	}
	if !r.givenUp && !r.deadline.IsZero() {
		wait = min(wait, r.deadline.Sub(now))
	}
	return recoveryWait, wait
}

// failed notes that the try that was out did not succeed. refused: the target has
// said that it does not want this host, and that asking again is no use.
func (r *recovery) failed(now time.Time, refused bool) {
	r.out = false
	r.refusals++
	if !refused {
		r.refusals = 0
	}
	r.next = r.begun.Add(r.delay)
	if soonest := now.Add(min(r.delay, time.Second)); r.next.Before(soonest) {
		r.next = soonest // the try itself took long
	}
}
