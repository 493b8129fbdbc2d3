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
	// byTraffic: any command keeps the controller alive (CTRATT.TBKAS), so that
	// periods with some need no Keep Alive.
	byTraffic bool

	last  time.Time // of the last check
	seen  traffic   // at the last check
	out   bool
	since time.Time // when the command that is out was sent
}

// traffic counts commands. To the controller, a period had traffic if it has received
// one, and to the host, if it has sent one and the peer gives signs of life. Answers
// alone don't tell: those of long commands come when the controller has received
// nothing for longer than it waits.
type traffic struct{ sent, answered uint64 }

func (t *traffic) add(o traffic) {
	t.sent += o.sent
	t.answered += o.answered
}

// forever is how long to wait for nothing.
const forever = 1000 * time.Hour

func newKeepAlive(kato time.Duration, byTraffic bool, now time.Time) keepAlive {
	k := keepAlive{kato: kato, period: kato / 2, byTraffic: byTraffic, last: now}
	if byTraffic {
		k.period = kato / 4
	}
	return k
}

// step says what to do now, given the traffic so far, and when to ask again if nothing
// happens.
func (k *keepAlive) step(now time.Time, all traffic) (keepAliveAction, time.Duration) {
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
	seen := k.seen
	k.seen = all
	if k.byTraffic && all.sent != seen.sent && all.answered != seen.answered {
		return keepAliveWait, k.period
	}
	k.out, k.since = true, now
	return keepAliveSend, k.kato
}

// answered notes the answer to a Keep Alive command, which is part of the traffic.
func (k *keepAlive) answered(all traffic) {
	k.out, k.seen = false, all
}
