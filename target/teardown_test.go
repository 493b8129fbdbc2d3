package target

import (
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
	if err := target.closeAll(t.Context()); err != nil {
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
	close(let)
	h.close()
	e.until("the end waits for the owner", func() bool {
		c.q.mu.Lock()
		defer c.q.mu.Unlock()
		return len(c.q.inbox.calls) > 0
	})
	time.Sleep(10 * time.Millisecond) // it looks for the controller then, and there is none
	sub.mu.Unlock()
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
