package backend

import (
	"math"
	"sync"
	"time"
)

// Limits bound the rate of a backend; 0 means no bound.
type Limits struct {
	// BytesPerSecond counts the data of reads and writes.
	BytesPerSecond int64
	// IOPS counts requests of all kinds.
	IOPS int64
}

// limitBurst is how far the requests may run ahead of the rate, so that short
// bursts are not delayed.
const limitBurst = 20 * time.Millisecond

// Limit slows a backend down to a rate.
func Limit(b Backend, l Limits) Backend {
	t := &throttle{limits: l}
	return Intercept(b, func(op Op, _, n int64) error {
		if op != OpRead && op != OpWrite {
			n = 0
		}
		time.Sleep(t.reserve(time.Now(), n))
		return nil
	})
}

// throttle spaces requests out: each moves the time when the next may begin by
// what it costs.
type throttle struct {
	limits Limits

	mu   sync.Mutex
	next time.Time
}

// reserve takes the turn of a request of n bytes at now, and says how long it has
// to wait.
func (t *throttle) reserve(now time.Time, n int64) time.Duration {
	cost := max(perUnit(n, t.limits.BytesPerSecond), perUnit(1, t.limits.IOPS))
	t.mu.Lock()
	defer t.mu.Unlock()
	if earliest := now.Add(-limitBurst); t.next.Before(earliest) {
		t.next = earliest
	}
	wait := t.next.Sub(now)
	t.next = t.next.Add(cost)
	return max(wait, 0)
}

// perUnit is how long n units take at rate units a second; 0 without a rate.
func perUnit(n, rate int64) time.Duration {
	if rate <= 0 {
		return 0
	}
	d := float64(n) / float64(rate) * float64(time.Second)
	return time.Duration(min(d, math.MaxInt64/4))
}
