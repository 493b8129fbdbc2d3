package backend

import (
	"slices"
	"sync/atomic"
	"time"
)

// Delays are how long each kind of request waits before it begins.
type Delays map[Op]time.Duration

// Delay makes a backend slow.
func Delay(b Backend, d Delays) Backend {
	return Intercept(b, func(op Op, _, _ int64) error {
		time.Sleep(d[op])
		return nil
	})
}

// Fault says which requests fail.
type Fault struct {
	// Ops are the kinds concerned; none means all.
	Ops []Op
	// After is how many of them succeed first.
	After int64
	// Every n-th fails from then on; 0 and 1 mean each.
	Every int64
	// Err is the answer.
	Err error
}

// Faults makes requests fail without reaching the backend.
func Faults(b Backend, f Fault) Backend {
	every := max(f.Every, 1)
	var count atomic.Int64
	return Intercept(b, func(op Op, _, _ int64) error {
		if len(f.Ops) > 0 && !slices.Contains(f.Ops, op) {
			return nil
		}
		if n := count.Add(1) - f.After; n > 0 && n%every == 0 {
			return f.Err
		}
		return nil
	})
}
