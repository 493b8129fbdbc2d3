package target

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"rbd/target/backend"
	"rbd/wire"
)

// cached says that a backend has a volatile cache.
type cached struct{ backend.Backend }

func (c cached) Attributes() backend.Attributes {
	a := c.Backend.Attributes()
	a.VolatileCache = true
	return a
}

// startShutdown asks a controller to shut down.
func (q *hostQueue) startShutdown() {
	q.t.Helper()
	q.setCC(wire.MakeCC(0).WithEN(true).WithSHN(wire.ShutdownNormal))
}

func (q *hostQueue) status() wire.CSTS { return wire.CSTS(q.property(wire.PropertyCSTS)) }

// TestShutdownFlushesWriteDuringFlush protects a write that was under way when a Flush
// began: that Flush does not count for it.
func TestShutdownFlushesWriteDuringFlush(t *testing.T) {
	e := newEnv(t)
	h := newHeld(t)
	e.add(cached{h}, nil)
	admin, cntlid := e.admin(testNQN)
	q := e.io(cntlid, 1, 16)
	w := q.rangeCmd(wire.IOWrite, 0, 1)
	w.CID = 77
	q.send(w, nil)
	<-h.began
	q.must(wire.FlushSQE(1))
	close(h.let)
	if cqe, err := q.answer(); err != nil || cqe.CID != 77 || !cqe.Status.OK() {
		t.Fatalf("%v, %v", cqe.String(), err)
	}
	before := h.flushes.Load()
	admin.startShutdown()
	e.until("the shutdown is complete", func() bool { return admin.status().SHST() == wire.ShutdownComplete })
	if h.flushes.Load() == before {
		t.Error("the shutdown is complete, and the write was not flushed")
	}
}

// TestShutdownWaitsForFlush protects data that a Flush has begun to make durable, of
// whatever host: the shutdown is not complete before that.
func TestShutdownWaitsForFlush(t *testing.T) {
	e := newEnv(t)
	let, began := make(chan struct{}), make(chan struct{}, 10)
	var flushed atomic.Bool
	e.add(cached{backend.Intercept(mustRAM(t), func(op backend.Op, _, _ int64) error {
		if op == backend.OpFlush {
			began <- struct{}{}
			<-let
			flushed.Store(true)
		}
		return nil
	})}, nil)
	admin, cntlid := e.admin(testNQN)
	q := e.io(cntlid, 1, 16)
	q.fill(0, 1, 'x')
	f := wire.FlushSQE(1)
	f.CID = 5
	q.send(f, nil)
	<-began
	admin.startShutdown()
	for range 5 {
		if admin.status().SHST() == wire.ShutdownComplete {
			t.Error("the shutdown is complete while the only flush has not ended")
		}
		time.Sleep(2 * time.Millisecond)
	}
	close(let)
	e.until("the shutdown is complete", func() bool { return admin.status().SHST() == wire.ShutdownComplete })
	if !flushed.Load() {
		t.Error("complete without a flush")
	}
}

// TestShutdownTellsOfLostData protects a host from a flush that fails at its shutdown:
// the shutdown does not become complete, the controller has failed.
func TestShutdownTellsOfLostData(t *testing.T) {
	e := newEnv(t)
	e.add(cached{backend.Intercept(mustRAM(t), func(op backend.Op, _, _ int64) error {
		if op == backend.OpFlush {
			return errors.New("the disk has lost something")
		}
		return nil
	})}, nil)
	admin, cntlid := e.admin(testNQN)
	q := e.io(cntlid, 1, 16)
	q.fill(0, 1, 'x')
	admin.startShutdown()
	e.until("the controller has failed", func() bool {
		csts := admin.status()
		if csts.SHST() == wire.ShutdownComplete {
			t.Fatal("the shutdown is complete, though the flush has failed")
		}
		return csts.CFS()
	})
	if err := e.target.Shutdown(t.Context()); err == nil || !strings.Contains(err.Error(), "lost something") {
		t.Errorf("shutdown of the target: %v", err)
	}
}
