package ibv

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rbd/verbs"
)

// gate is a place in the library where a test stops whoever comes by.
type gate struct {
	on            atomic.Bool
	reached, open chan struct{}
}

func newGate() gate { return gate{reached: make(chan struct{}), open: make(chan struct{})} }

func (g *gate) pass() {
	if g.on.CompareAndSwap(true, false) {
		close(g.reached)
		<-g.open
	}
}

// gatedLibrary stops in calls that others must wait for, and notes those that
// rdma-core would not survive.
type gatedLibrary struct {
	*fakeLibrary
	regMRGate, postGate, destroyQPGate, queryGate gate

	qps     atomic.Int32 // made, and not destroyed to the end
	posting atomic.Bool
	freedID atomic.Bool
	misuse  chan string
}

func (l *gatedLibrary) note(bad bool, what string) {
	if bad {
		l.misuse <- what
	}
}

func (l *gatedLibrary) regMR(p uintptr, m []byte, a verbs.Access) (mrInfo, error) {
	l.regMRGate.pass()
	return l.fakeLibrary.regMR(p, m, a)
}

func (l *gatedLibrary) createQP(id, pd uintptr, a qpAttr) (uintptr, uint32, error) {
	l.qps.Add(1)
	return l.fakeLibrary.createQP(id, pd, a)
}

func (l *gatedLibrary) destroyQP(uintptr) {
	l.note(l.qps.Load() == 0, "destroy the QP of an identifier that has none")
	l.note(l.posting.Load(), "destroy a QP while a request is posted to it")
	l.destroyQPGate.pass()
	l.qps.Add(-1)
}

func (l *gatedLibrary) setQPError(uintptr) error {
	l.note(l.qps.Load() == 0, "modify a QP that is destroyed")
	return nil
}

func (l *gatedLibrary) postSend(_ uintptr, w []sendRecord, _ []verbs.SGE) (int, error) {
	l.posting.Store(true)
	l.postGate.pass()
	l.posting.Store(false)
	return len(w), nil
}

func (l *gatedLibrary) destroyCQ(h uintptr) error {
	l.note(l.qps.Load() > 0, "destroy a CQ that a QP uses")
	return l.fakeLibrary.destroyCQ(h)
}

func (l *gatedLibrary) deallocPD(h uintptr) error {
	l.note(l.qps.Load() > 0, "deallocate a domain that a QP uses")
	return l.fakeLibrary.deallocPD(h)
}

func (l *gatedLibrary) queryID(id uintptr) idInfo {
	l.queryGate.pass()
	l.note(l.freedID.Load(), "read an identifier that is destroyed")
	return l.fakeLibrary.queryID(id)
}

func (l *gatedLibrary) destroyID(uintptr) error { l.freedID.Store(true); return nil }

// newGatedBench is a bench on such a library; what it notes fails the test.
func newGatedBench(t *testing.T) (*bench, *gatedLibrary) {
	t.Helper()
	l := &gatedLibrary{regMRGate: newGate(), postGate: newGate(), destroyQPGate: newGate(), queryGate: newGate(), misuse: make(chan string, 10)}
	t.Cleanup(func() { // after that of the bench
		close(l.misuse)
		for m := range l.misuse {
			t.Error(m)
		}
	})
	return newBenchOn(t, func(f *fakeLibrary) library { l.fakeLibrary = f; return l }, nil), l
}

// waitFor waits until something is so.
func waitFor(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !so(); time.Sleep(50 * time.Microsecond) {
		if time.Now().After(end) {
			t.Fatal("it never came to this: ", what)
		}
	}
}

// background runs f, and gives it time to go wrong.
func background(f func()) (done chan struct{}) {
	done = make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Millisecond):
	}
	return done
}

// Protects programs that make a connection while the device goes: the removal, which
// waits for a registration, meets no QP that the device does not have yet.
func TestRemovedWhileQPIsMade(t *testing.T) {
	b, l := newGatedBench(t)
	if err := b.qp.Destroy(); err != nil {
		t.Fatal(err)
	}
	l.regMRGate.on.Store(true)
	registered := make(chan struct{})
	go func() {
		defer close(registered)
		if m, err := b.pd.RegMR(make([]byte, 4096), 0); err == nil {
			_ = m.Dereg() // the device is gone
		}
	}()
	<-l.regMRGate.reached
	d := b.c.dev
	removed := background(d.remove)
	waitFor(t, "the removal waits", func() bool {
		if !d.life.mu.TryRLock() {
			return true
		}
		d.life.mu.RUnlock()
		return false
	})
	c := b.p.newCMID()
	c.dev = d
	made := background(func() {
		if q, err := c.CreateQP(b.pd, verbs.QPInitAttr{SendCQ: b.cq, RecvCQ: b.cq}); err == nil {
			t.Error("a QP was made of a device that is gone")
			_ = q.Destroy()
		}
	})
	close(l.regMRGate.open)
	for _, done := range []chan struct{}{made, removed, registered} {
		<-done
	}
}

// Protects programs that post while their device goes: the removal comes second, finds
// the connection ended, and still waits for the post, as the end does.
func TestRemovedWhileEnding(t *testing.T) {
	b, l := newGatedBench(t)
	b.connect()
	l.postGate.on.Store(true)
	posted := make(chan struct{})
	go func() {
		defer close(posted)
		if err := b.qp.PostSend([]verbs.SendWR{{ID: 1}}); err != nil {
			t.Error(err)
		}
	}()
	<-l.postGate.reached
	ended := make(chan struct{})
	go func() { b.c.end(errDeviceRemoved); close(ended) }()
	waitFor(t, "the connection has ended", func() bool { return b.c.Err() != nil })
	removed := background(b.c.dev.remove)
	close(l.postGate.open)
	for _, done := range []chan struct{}{posted, ended, removed} {
		<-done
	}
	wantFlushed(t, b, 1)
}

// Protects programs that destroy a QP because its device goes: the queues and the
// domain are not freed before the QP is.
func TestRemovedWhileQPIsDestroyed(t *testing.T) {
	b, l := newGatedBench(t)
	l.destroyQPGate.on.Store(true)
	destroyed := make(chan struct{})
	go func() {
		defer close(destroyed)
		if err := b.qp.Destroy(); err != nil {
			t.Error(err)
		}
	}()
	<-l.destroyQPGate.reached
	removed := background(b.c.dev.remove)
	close(l.destroyQPGate.open)
	<-destroyed
	<-removed
}

// brokenEvents is a library that can't read the events of its device any more.
type brokenEvents struct {
	*fakeLibrary
	broken atomic.Bool
	reads  atomic.Int32
}

func (l *brokenEvents) asyncEvent(uintptr) (asyncEvent, uint64, error) {
	if !l.broken.Load() {
		return 0, 0, unix.EAGAIN
	}
	l.reads.Add(1)
	return eventCQErr, 0, unix.EIO // the kind that rdmaCore has before it is read
}

// Protects the processor from a device whose events can't be read: it is given up at
// the first error.
func TestEventsUnreadable(t *testing.T) {
	l := &brokenEvents{}
	b := newBenchOn(t, func(f *fakeLibrary) library { l.fakeLibrary = f; return l }, nil).connect()
	l.broken.Store(true)
	b.lib.mu.Lock()
	for _, fd := range b.lib.events { // that of the device is among them
		if _, err := unix.Write(fd, []byte{1}); err != nil {
			t.Error(err)
		}
	}
	b.lib.mu.Unlock()
	waitFor(t, "the device is given up", b.c.dev.removed)
	<-b.c.Disconnected()
	if err := b.c.Err(); !errors.Is(err, errDeviceRemoved) {
		t.Errorf("cause of the end: %v", err)
	}
	if n := l.reads.Load(); n != 1 {
		t.Errorf("%d reads of events", n)
	}
}

// Protects programs that give a connection up which has just been made: Connect asks
// for its addresses, and Destroy waits for the answer.
func TestDestroyWhileConnectLearns(t *testing.T) {
	b, l := newGatedBench(t)
	connected := make(chan struct{})
	go func() {
		defer close(connected)
		_, _ = b.c.Connect(context.Background(), verbs.ConnParam{}) // either end is right
	}()
	waitFor(t, "Connect waits for the answer", func() bool {
		b.c.mu.Lock()
		defer b.c.mu.Unlock()
		return b.c.state == stateConnecting
	})
	l.queryGate.on.Store(true)
	b.c.handleEvent(cmEvent{event: cmEstablished})
	<-l.queryGate.reached
	destroyed := background(func() {
		if err := b.c.Destroy(); err != nil {
			t.Error(err)
		}
	})
	close(l.queryGate.open)
	<-connected
	<-destroyed
}
