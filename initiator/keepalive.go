package initiator

import "time"

// keepAliveAction is what is to be done now.
type keepAliveAction uint8

const (
	keepAliveWait keepAliveAction = iota
	// keepAliveSend: send a Keep Alive command and call sent.
	keepAliveSend
	// keepAliveExpired: the last one was not answered; the connection is lost.
	keepAliveExpired
)

// keepAlive decides when to send Keep Alive commands (NVMe Base, Keep Alive; the
// periods are those of Linux). It has no clock: it is told the time.
type keepAlive struct {
	kato   time.Duration // 0: off
	period time.Duration
	// traffic: any command keeps the controller alive (CTRATT.TBKAS), so that
	// periods with answers need no Keep Alive.
	traffic bool

	last    time.Time // of the last check
	answers uint64    // at the last check
	out     bool
	since   time.Time // when the command that is out was sent
}

// forever is how long to wait for nothing.
const forever = 1000 * time.Hour

func newKeepAlive(kato time.Duration, traffic bool, now time.Time) keepAlive {
	k := keepAlive{kato: kato, period: kato / 2, traffic: traffic, last: now}
	if traffic {
		k.period = kato / 4
	}
	return k
}

// step says what to do now, given how many answers have come so far, and when to
// ask again if nothing happens.
func (k *keepAlive) step(now time.Time, answers uint64) (keepAliveAction, time.Duration) {
	if k.kato == 0 {
		return keepAliveWait, forever
	}
	if k.out {
		if left := k.kato - now.Sub(k.since); left > 0 {
			return keepAliveWait, left
		}
		return keepAliveExpired, 0
	}
	if left := k.period - now.Sub(k.last); left > 0 {
		return keepAliveWait, left
	}
	k.last = now
	if k.traffic && answers != k.answers {
		k.answers = answers
		return keepAliveWait, k.period
	}
	k.out, k.since = true, now
	return keepAliveSend, k.kato
}

// answered notes the answer to a Keep Alive command, which is itself the
// answers-th.
func (k *keepAlive) answered(answers uint64) {
	k.out, k.answers = false, answers
}
