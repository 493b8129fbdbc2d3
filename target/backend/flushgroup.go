package backend

import (
	"fmt"
	"sync"
)

// flushGroup lets all who ask for a flush at about the same time share one, and
// keeps a failure for good.
//
// The sharing is also what makes errors reach everybody: the system reports a
// lost write to one fdatasync of a file description, so two that run side by
// side could not both learn of it.
type flushGroup struct {
	sync func() error

	mu      sync.Mutex
	changed sync.Cond
	started uint64 // rounds begun
	running bool
	err     error // of the first failure
}

func newFlushGroup(sync func() error) *flushGroup {
	g := &flushGroup{sync: sync}
	g.changed.L = &g.mu
	return g
}

// flush returns when a round that began after the call has ended.
func (g *flushGroup) flush() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	want := g.started + 1
	for g.err == nil && (g.started < want || g.running && g.started == want) {
		if g.running {
			g.changed.Wait()
			continue
		}
		g.started++
		g.running = true
		g.mu.Unlock()
		err := g.sync()
		g.mu.Lock()
		g.running = false
		g.keep(err)
		g.changed.Broadcast()
	}
	return g.err
}

// fail keeps err, which a durable write met, as if a flush had.
func (g *flushGroup) fail(err error) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.keep(err)
	return g.err
}

func (g *flushGroup) keep(err error) {
	if err != nil && g.err == nil {
		g.err = fmt.Errorf("written data was lost: %w", err)
	}
}

// failed is the error that was kept.
func (g *flushGroup) failed() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.err
}
