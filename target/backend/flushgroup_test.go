package backend

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestFlushIsShared protects both sides of sharing: those who come while one runs
// need a new one, and they need only one.
func TestFlushIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rounds atomic.Int32
		step := make(chan error)
		g := newFlushGroup(func() error { rounds.Add(1); return <-step })
		var first, later sync.WaitGroup
		var done atomic.Int32
		first.Go(func() { _ = g.flush() })
		synctest.Wait()
		for range 10 {
			later.Go(func() { _ = g.flush(); done.Add(1) })
		}
		synctest.Wait()
		step <- nil
		first.Wait()
		synctest.Wait()
		if n := done.Load(); n != 0 {
			t.Errorf("%d flushes were answered by a round that began before them", n)
		}
		step <- nil
		later.Wait()
		if n := rounds.Load(); n != 2 {
			t.Errorf("%d rounds, want 2", n)
		}
	})
}

// TestFlushErrorReachesAll protects everyone who waits when a flush fails.
func TestFlushErrorReachesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := errors.New("lost")
		step := make(chan error)
		g := newFlushGroup(func() error { return <-step })
		errs := make(chan error, 5)
		for range 5 {
			go func() { errs <- g.flush() }()
		}
		synctest.Wait()
		step <- lost
		for range 5 {
			if err := <-errs; !errors.Is(err, lost) {
				t.Errorf("%v", err)
			}
		}
	})
}
