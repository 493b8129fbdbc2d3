package verbstest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"rbd/verbs"
)

// CQMode is one of the three ways in which a completion queue is used.
type CQMode int

// The modes.
const (
	// Waited queues are armed and waited for.
	Waited CQMode = iota
	// Polled queues are asked again and again.
	Polled
	// Handled queues have a handler.
	Handled
)

// CQModes are all modes.
var CQModes = []CQMode{Waited, Polled, Handled}

func (m CQMode) String() string { return [...]string{"Waited", "Polled", "Handled"}[m] }

// errQuiet: no completion came in time.
var errQuiet = errors.New("no completion")

// Queue takes completions from a CQ, whatever its mode. It is for one goroutine.
type Queue struct {
	CQ   verbs.CQ
	e    *Env
	name string
	mode CQMode
	have []verbs.WC // taken from the CQ, not from the Queue

	mu   sync.Mutex
	fed  []verbs.WC // what the handler got
	bell chan struct{}
}

// Queue makes a CQ in a mode. handler, if not nil, makes it a handled CQ whose
// completions the caller gets, not the Queue.
func (e *Env) Queue(name string, mode CQMode, depth int, handler func([]verbs.WC)) *Queue {
	e.T.Helper()
	q := &Queue{e: e, name: name, mode: mode, bell: make(chan struct{}, 1)}
	attr := verbs.CQAttr{Depth: depth, Handler: handler}
	if handler == nil && mode == Handled {
		attr.Handler = q.feed
	}
	cq, err := e.Device.CreateCQ(attr)
	if err != nil {
		e.T.Fatalf("create a CQ of depth %d: %v", depth, err)
	}
	q.CQ = cq
	e.T.Cleanup(func() { e.Destroy("CQ "+name, cq.Destroy) })
	return q
}

func (q *Queue) feed(batch []verbs.WC) {
	q.mu.Lock()
	q.fed = append(q.fed, batch...)
	q.mu.Unlock()
	select {
	case q.bell <- struct{}{}:
	default:
	}
}

// take moves what is there now to q.have.
func (q *Queue) take() bool {
	if q.mode == Handled {
		q.mu.Lock()
		q.have, q.fed = append(q.have, q.fed...), nil
		q.mu.Unlock()
	} else {
		var wcs [32]verbs.WC
		n := q.CQ.Poll(wcs[:])
		q.have = append(q.have, wcs[:n]...)
	}
	return len(q.have) > 0
}

// fetch waits until q.have is not empty, at most for d.
func (q *Queue) fetch(d time.Duration) error {
	deadline := time.Now().Add(d)
	for !q.take() {
		if err := q.wait(deadline); err != nil {
			return fmt.Errorf("%s: %w", q.name, err)
		}
	}
	return nil
}

// wait waits in the way of the mode until there may be something to take.
func (q *Queue) wait(deadline time.Time) error {
	switch q.mode {
	case Polled:
		time.Sleep(20 * time.Microsecond)
		if time.Now().After(deadline) {
			return errQuiet
		}
	case Handled:
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		select {
		case <-q.bell:
		case <-timer.C:
			return errQuiet
		}
	case Waited:
		if err := q.CQ.ReqNotify(); err != nil {
			return fmt.Errorf("arm the CQ: %w", err)
		}
		if q.take() {
			return nil
		}
		ctx, cancel := context.WithDeadline(context.Background(), deadline)
		defer cancel()
		if err := q.CQ.Wait(ctx); errors.Is(err, context.DeadlineExceeded) {
			return errQuiet
		} else if err != nil {
			return fmt.Errorf("wait for the CQ: %w", err)
		}
	}
	return nil
}

// TryNext is the oldest completion, if there is one now.
func (q *Queue) TryNext() (verbs.WC, bool) {
	if len(q.have) == 0 && !q.take() {
		return verbs.WC{}, false
	}
	wc := q.have[0]
	q.have = q.have[1:]
	return wc, true
}

// Next waits for the oldest completion.
func (q *Queue) Next() verbs.WC {
	q.e.T.Helper()
	wc, err := q.next()
	if err != nil {
		q.e.T.Fatalf("%v after %v", err, patience)
	}
	return wc
}

// next is Next for goroutines that may not end the test.
func (q *Queue) next() (verbs.WC, error) {
	if len(q.have) == 0 {
		if err := q.fetch(patience); err != nil {
			return verbs.WC{}, err
		}
	}
	wc, _ := q.TryNext()
	return wc, nil
}

// OK waits for the next completion, which must be the successful one of the
// request id.
func (q *Queue) OK(id uint64, op verbs.WCOpcode) verbs.WC {
	q.e.T.Helper()
	wc := q.Next()
	if wc.ID != id || wc.Status != verbs.WCSuccess || wc.Opcode != op {
		q.e.T.Fatalf("%s: completion of request %d: %v %v, want request %d: SUCCESS %v", q.name, wc.ID, wc.Status, wc.Opcode, id, op)
	}
	return wc
}

// Fails waits for the next completion, which must be of the request id, with one
// of the statuses.
func (q *Queue) Fails(id uint64, statuses ...verbs.WCStatus) verbs.WC {
	q.e.T.Helper()
	wc := q.Next()
	for _, s := range statuses {
		if wc.ID == id && wc.Status == s {
			return wc
		}
	}
	q.e.T.Fatalf("%s: completion of request %d: %v, want request %d: one of %v", q.name, wc.ID, wc.Status, id, statuses)
	return wc
}

// Flushed waits for the requests first, first+1, … to be flushed, n of them in
// this order.
func (q *Queue) Flushed(first uint64, n int) {
	q.e.T.Helper()
	for i := range uint64(n) {
		q.Fails(first+i, verbs.WCWRFlushErr)
	}
}

// Quiet checks that no completion comes to any of the queues for a short while.
func (e *Env) Quiet(queues ...*Queue) {
	e.T.Helper()
	time.Sleep(calm)
	for _, q := range queues {
		if len(q.have) > 0 || q.take() {
			e.T.Fatalf("%s: unexpected completions %+v", q.name, q.have)
		}
	}
}
