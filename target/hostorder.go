package target

import (
	"errors"
	"slices"
	"sync"
	"time"

	"rbd/wire"
)

// settleTime is how long a Connect waits when its host has other live connections
// to the subsystem: their end may be on its way, behind commands that are still to
// be done.
const settleTime = 50 * time.Millisecond

// errDrainTimeout: a Connect has waited too long for an earlier connection.
var errDrainTimeout = errors.New("commands of the host's lost connections are still being executed")

// hostKey tells hosts apart.
type hostKey struct {
	nqn string
	id  wire.UUID
}

// hostOrder keeps the order of one host's writes over a loss of connection, for
// one subsystem. A queue that was lost counts until its last command has left the
// backend; a Connect is admitted when its host has none that count.
type hostOrder struct {
	mu      sync.Mutex
	lost    map[hostKey]int
	waiting map[hostKey][]*admission
}

// admission is a Connect that waits.
type admission struct {
	host    hostKey
	settled bool
	ready   func(error)
	timers  [2]*time.Timer
}

func newHostOrder() *hostOrder {
	return &hostOrder{lost: make(map[hostKey]int), waiting: make(map[hostKey][]*admission)}
}

// lose counts a queue of the host that was lost.
func (o *hostOrder) lose(h hostKey) {
	o.mu.Lock()
	o.lost[h]++
	o.mu.Unlock()
}

// drained ends what lose began.
func (o *hostOrder) drained(h hostKey) {
	o.mu.Lock()
	if o.lost[h]--; o.lost[h] == 0 {
		delete(o.lost, h)
	}
	o.mu.Unlock()
	o.serve(h)
}

// admit calls ready when the host may do I/O: at once, on the caller's goroutine,
// and then returns nil; or later, with nil or errDrainTimeout, unless the
// admission is withdrawn. settle says that other connections of the host are up.
func (o *hostOrder) admit(h hostKey, settle bool, limit time.Duration, ready func(error)) *admission {
	o.mu.Lock()
	if o.lost[h] == 0 && !settle {
		o.mu.Unlock()
		ready(nil)
		return nil
	}
	a := &admission{host: h, settled: !settle, ready: ready}
	o.waiting[h] = append(o.waiting[h], a)
	a.timers[0] = time.AfterFunc(limit, func() {
		if o.withdraw(a) {
			ready(errDrainTimeout)
		}
	})
	if settle {
		a.timers[1] = time.AfterFunc(settleTime, func() {
			o.mu.Lock()
			a.settled = true
			o.mu.Unlock()
			o.serve(h)
		})
	}
	o.mu.Unlock()
	return a
}

// serve admits those of a host who need not wait any longer.
func (o *hostOrder) serve(h hostKey) {
	o.mu.Lock()
	var admitted []*admission
	if o.lost[h] == 0 {
		for _, a := range slices.Clone(o.waiting[h]) {
			if a.settled && o.remove(a) {
				admitted = append(admitted, a)
			}
		}
	}
	o.mu.Unlock()
	for _, a := range admitted {
		a.ready(nil)
	}
}

// withdraw takes an admission back; false if it was decided already.
func (o *hostOrder) withdraw(a *admission) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.remove(a)
}

// remove takes a out of the line. The caller holds mu.
func (o *hostOrder) remove(a *admission) bool {
	i := slices.Index(o.waiting[a.host], a)
	if i < 0 {
		return false
	}
	rest := slices.Delete(o.waiting[a.host], i, i+1)
	if len(rest) == 0 {
		delete(o.waiting, a.host)
	} else {
		o.waiting[a.host] = rest
	}
	for _, t := range a.timers {
		if t != nil {
			t.Stop()
		}
	}
	return true
}
