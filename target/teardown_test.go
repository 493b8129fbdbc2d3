package target

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rbd/wire"
)

// TestPostedWhileDying protects the end of a queue from a request that its controller
// answers at that moment: what is in the inbox comes back by the inbox, with all
// behind it.
func TestPostedWhileDying(t *testing.T) {
	target, dev := fuzzTarget(t)
	h := newHarness(t, target, dev, 0, 8)
	q := h.q
	q.call(func() {
		kept, late, executing := q.take(), q.take(), q.take()
		for _, s := range []*slot{kept, late} {
			s.enter(slotParked)
			q.parked++
		}
		executing.enter(slotExecuting)
		q.post(kept) // the owner is busy, so they stay in the inbox
		q.post(executing)
		q.die()
		q.post(late)
	})
	h.close()
	if err := target.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestConnectDuringTeardown protects a host from a Connect that is executed while its
// connection ends: it leaves no controller behind, and the account of what is lost is
// in order, so that the host may come again.
func TestConnectDuringTeardown(t *testing.T) {
	e := newEnv(t)
	e.addRAM(1 << 20)
	h, err := e.dial(0, adminDepth)
	if err != nil {
		t.Fatal(err)
	}
	var c *conn
	e.until("there is a connection", func() bool {
		e.target.mu.Lock()
		defer e.target.mu.Unlock()
		for c = range e.target.conns {
		}
		return c != nil
	})
	<-c.ready
	// An owner that is no CQ handler, which the end of the CQ would wait for.
	busy, let := make(chan struct{}), make(chan struct{})
	go c.q.call(func() { close(busy); <-let })
	<-busy
	sqe := wire.Connect{SQSize: adminDepth - 1}.SQE()
	sqe.SGL = wire.OffsetSGL(0, wire.ConnectDataSize)
	d := connectData(wire.CNTLIDDynamic)
	h.send(sqe, d.Append(nil))
	e.until("the command is in the inbox", func() bool {
		c.q.mu.Lock()
		defer c.q.mu.Unlock()
		return len(c.q.inbox.wcs) > 0
	})
	sub := e.target.subsystem(testNQN)
	sub.mu.Lock() // the owner comes no further than this
	unlock := sync.OnceFunc(sub.mu.Unlock)
	defer unlock()
	close(let)
	e.until("the owner has the command", func() bool {
		c.q.mu.Lock()
		defer c.q.mu.Unlock()
		return len(c.q.inbox.wcs) == 0
	})
	h.close()
	e.until("the end waits for the owner", func() bool {
		c.q.mu.Lock()
		defer c.q.mu.Unlock()
		return len(c.q.inbox.calls) > 0
	})
	time.Sleep(10 * time.Millisecond) // it looks for the controller then, and there is none
	unlock()
	e.until("the connection is gone", func() bool {
		e.target.mu.Lock()
		defer e.target.mu.Unlock()
		return len(e.target.conns) == 0
	})
	if n := len(sub.all()); n != 0 {
		t.Errorf("%d controllers without a connection", n)
	}
	e.admin(testNQN)
}

// TestShutdownWithStoppedPeer protects the data of all from one host that stands still:
// its connection is cut in time, and the backends are flushed.
func TestShutdownWithStoppedPeer(t *testing.T) {
	e := newEnv(t)
	h := newHeld(t)
	close(h.let)
	e.add(cached{h}, nil)
	p := e.through()
	_, cntlid := e.admin(testNQN)
	q := e.io(cntlid, 1, 16)
	q.fill(0, 1, 'x')
	p.FreezeReplies()
	q.send(q.rangeCmd(wire.IOWrite, 0, 8), nil) // its RDMA READ is not answered
	e.until("the write is under way", func() bool { return q.serverSide(e).waiting.Load() > 0 })
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	if err := e.target.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if h.flushes.Load() == 0 {
		t.Error("the backend was not flushed")
	}
}

// TestShutdownWithHungDisk protects the data on all disks from one that hangs: they are
// flushed and closed, and the error names the one that is not.
func TestShutdownWithHungDisk(t *testing.T) {
	e, h, _, _, _ := heldWrite(t)
	var flushes atomic.Int32
	if _, err := e.target.AddNamespace(Export{NQN: testNQN + "2", Backend: writeBack{mustRAM(t), &flushes}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := e.target.Shutdown(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "close namespace 1 of "+testNQN+":") {
		t.Errorf("shutdown: %v", err)
	}
	if flushes.Load() == 0 {
		t.Error("the other backend was not flushed")
	}
	close(h.let)
	e.target.work.Wait()
	if err := e.target.closeDevices(); err != nil {
		t.Error(err)
	}
}

// serverSide is the target's end of the only I/O queue.
func (q *hostQueue) serverSide(e *env) *queue {
	q.t.Helper()
	e.target.mu.Lock()
	defer e.target.mu.Unlock()
	for c := range e.target.conns {
		if c.q.hostQID != 0 {
			return c.q
		}
	}
	q.t.Fatal("the target has no i/o queue")
	return nil
}
