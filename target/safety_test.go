package target

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"rbd/target/backend"
	"rbd/wire"
)

func truncate(path string, n int64) error { return os.Truncate(path, n) }

// held is a RAM backend whose writes wait until they are let go.
type held struct {
	backend.Backend
	began   chan struct{} // one for each write that has begun
	let     chan struct{} // closed when they may go on
	flushes atomic.Int32
}

func newHeld(t *testing.T) *held {
	t.Helper()
	h := &held{began: make(chan struct{}, 1000), let: make(chan struct{})}
	h.Backend = backend.Intercept(mustRAM(t), func(op backend.Op, _, _ int64) error {
		switch op {
		case backend.OpWrite:
			h.began <- struct{}{}
			<-h.let
		case backend.OpFlush:
			h.flushes.Add(1)
		}
		return nil
	})
	return h
}

// heldWrite is a target with a host that has one write, command 77, in hand.
func heldWrite(t *testing.T, opts ...envOption) (e *env, h *held, admin, q *hostQueue, cntlid uint16) {
	t.Helper()
	e = newEnv(t, opts...)
	h = newHeld(t)
	e.add(h, nil)
	admin, cntlid = e.admin(testNQN)
	q = e.io(cntlid, 1, 16)
	copy(q.data(512), bytes.Repeat([]byte("old "), 128))
	sqe := q.rangeCmd(wire.IOWrite, 0, 1)
	sqe.CID = 77
	q.send(sqe, nil)
	<-h.began
	return e, h, admin, q, cntlid
}

// TestWritesOfALostConnection protects the order of a host's writes: what a lost
// connection has begun is done before the same host's next controller can do I/O,
// and other hosts do not wait for it.
func TestWritesOfALostConnection(t *testing.T) {
	e, h, admin, q, _ := heldWrite(t)
	q.close()
	admin.close()

	again, err := e.dial(0, 32)
	if err != nil {
		t.Fatal(err)
	}
	e.until("the loss is noticed", func() bool { return len(e.target.subsystem(testNQN).all()) == 0 })
	d := connectData(wire.CNTLIDDynamic)
	copy(again.data(wire.ConnectDataSize), d.Append(nil))
	connect := wire.Connect{SQSize: 31}.SQE()
	connect.SGL = again.keyed(wire.ConnectDataSize)
	again.send(connect, nil)

	other, err := e.dial(0, 32)
	if err != nil {
		t.Fatal(err)
	}
	d.HostID[0]++
	if cqe := other.connect(wire.Connect{SQSize: 31}, d); !cqe.Status.OK() {
		t.Errorf("another host: %v", cqe.Status)
	}
	time.Sleep(3 * settleTime)
	if len(again.recvs) != 0 {
		t.Fatal("the Connect was answered while a write of the lost connection was in hand")
	}
	close(h.let)
	cqe, err := again.answer()
	if err != nil || !cqe.Status.OK() {
		t.Fatalf("%v, %v", cqe.Status, err)
	}
	again.setCC(wire.MakeCC(0).WithEN(true))
	q = e.io(uint16(cqe.Result), 1, 16)
	q.fill(0, 1, 'n')
	if !all(q.blocksOf(0, 1), 'n') {
		t.Error("the old write came last")
	}
}

// TestWritesOfAHalfOpenConnection protects data from connections that only the host
// knows to be lost: what they have in hand is done before the host's next controller
// can do I/O.
func TestWritesOfAHalfOpenConnection(t *testing.T) {
	e, h, _, q, _ := heldWrite(t)
	again, err := e.dial(0, 32)
	if err != nil {
		t.Fatal(err)
	}
	d := connectData(wire.CNTLIDDynamic)
	copy(again.data(wire.ConnectDataSize), d.Append(nil))
	connect := wire.Connect{SQSize: 31}.SQE()
	connect.SGL = again.keyed(wire.ConnectDataSize)
	again.send(connect, nil)
	time.Sleep(3 * settleTime)
	if len(again.recvs) != 0 {
		t.Fatal("the Connect was answered while a write of the host was in hand")
	}
	close(h.let)
	cqe, err := again.answer()
	if err != nil || !cqe.Status.OK() {
		t.Fatalf("%v, %v", cqe.Status, err)
	}
	if cqe, err := q.answer(); err != nil || !cqe.Status.OK() {
		t.Errorf("the held write: %v, %v", cqe.Status, err)
	}
}

// TestWritesInTheNetwork protects data from writes that the network delivers late: a
// host that has given a connection up does not get another one before they are done.
func TestWritesInTheNetwork(t *testing.T) {
	e := newEnv(t)
	e.addRAM(1 << 20)
	direct := e.addr
	p := e.through()
	_, cntlid := e.admin(testNQN)
	q := e.io(cntlid, 1, 16)
	p.Freeze()
	late := wire.RangeSQE(wire.IOWrite, 1, 0, 1)
	late.SGL, late.CID = wire.OffsetSGL(0, 512), 77
	q.send(late, bytes.Repeat([]byte{'o'}, 512))
	q.close()

	e.addr = direct
	again, err := e.dial(0, 32)
	if err != nil {
		t.Fatal(err)
	}
	connect := wire.Connect{SQSize: 31}.SQE()
	connect.SGL = again.keyed(wire.ConnectDataSize)
	d := connectData(wire.CNTLIDDynamic)
	copy(again.data(wire.ConnectDataSize), d.Append(nil))
	again.send(connect, nil)
	time.Sleep(3 * settleTime)
	if len(again.recvs) != 0 {
		t.Fatal("the Connect was answered while a write of the host was in the network")
	}
	p.Thaw()
	cqe, err := again.answer()
	if err != nil || !cqe.Status.OK() {
		t.Fatalf("%v, %v", cqe.Status, err)
	}
	again.setCC(wire.MakeCC(0).WithEN(true))
	q = e.io(uint16(cqe.Result), 1, 16)
	if !all(q.blocksOf(0, 1), 'o') {
		t.Error("the late write has not come before the Connect was answered")
	}
	q.fill(0, 1, 'n')
	time.Sleep(settleTime)
	if !all(q.blocksOf(0, 1), 'n') {
		t.Error("the late write came last")
	}
}

// TestConnectDoesNotWaitForEver protects a host from waiting for a disk that hangs,
// and that it may try again.
func TestConnectDoesNotWaitForEver(t *testing.T) {
	e, h, admin, q, _ := heldWrite(t, withConfig(func(c *Config) { c.DrainTimeout = 100 * time.Millisecond }))
	admin.close()
	q.lost() // with the admin queue the whole association ends
	again, err := e.dial(0, 32)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if cqe := again.connect(wire.Connect{SQSize: 31}, connectData(wire.CNTLIDDynamic)); cqe.Status != wire.StatusConnectControllerBusy {
			t.Fatalf("%v, want a refusal that may be retried", cqe.Status)
		}
	}
	close(h.let)
	e.until("a Connect succeeds", func() bool {
		return again.connect(wire.Connect{SQSize: 31}, connectData(wire.CNTLIDDynamic)).Status.OK()
	})
}

// TestSecondController protects hosts that connect twice on purpose: the first
// controller lives on.
func TestSecondController(t *testing.T) {
	e := newEnv(t)
	e.addRAM(1 << 20)
	first, one := e.admin(testNQN)
	_, two := e.admin(testNQN)
	if one == two {
		t.Errorf("both are controller %d", one)
	}
	first.must(wire.KeepAliveSQE())
	e.io(one, 1, 16).fill(0, 8, 1)
	if !all(e.io(two, 1, 16).blocksOf(0, 8), 1) {
		t.Error("the second controller reads other data")
	}
}

// TestLostIOQueue protects a controller from the loss of one of its queues, and the
// queue's identifier from being used before it is free.
func TestLostIOQueue(t *testing.T) {
	e, h, admin, q, cntlid := heldWrite(t)
	q.close()
	e.until("the loss is noticed", func() bool {
		s := e.target.subsystem(testNQN)
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.controllers[cntlid].queues[1].lost
	})
	again, err := e.dial(1, 16)
	if err != nil {
		t.Fatal(err)
	}
	if cqe := again.connect(wire.Connect{QID: 1, SQSize: 15}, connectData(cntlid)); cqe.Status != wire.StatusConnectControllerBusy {
		t.Errorf("%v", cqe.Status)
	}
	close(h.let)
	e.gone(cntlid, 1)
	if cqe := again.connect(wire.Connect{QID: 1, SQSize: 15}, connectData(cntlid)); !cqe.Status.OK() {
		t.Errorf("%v", cqe.Status)
	}
	admin.must(wire.KeepAliveSQE())
}

// TestShutdownFinishes protects what was accepted before a shutdown: it is done,
// answered and flushed, and nothing new begins.
func TestShutdownFinishes(t *testing.T) {
	e, h, admin, q, _ := heldWrite(t)
	admin.aer(1000)
	done := make(chan error, 1)
	go func() { done <- e.target.Shutdown(t.Context()) }()
	e.until("the target stops", e.target.isStopping)
	if _, err := e.target.AddNamespace(Export{NQN: testNQN, Backend: h}); !errors.Is(err, ErrShutdown) {
		t.Errorf("a new export: %v", err)
	}
	select {
	case err := <-done:
		t.Fatalf("shut down with a write in hand: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(h.let)
	if cqe, err := q.answer(); err != nil || !cqe.Status.OK() || cqe.CID != 77 {
		t.Errorf("%v, %v", cqe.String(), err)
	}
	q.lost()
	admin.lost()
	if err := <-done; err != nil {
		t.Errorf("shutdown: %v", err)
	}
	if h.flushes.Load() == 0 {
		t.Error("the backend was not flushed")
	}
	if err := e.target.Shutdown(t.Context()); !errors.Is(err, ErrShutdown) {
		t.Errorf("second shutdown: %v", err)
	}
}

// writeBack is a backend with a volatile cache, that counts flushes.
type writeBack struct {
	backend.Backend
	flushes *atomic.Int32
}

func (b writeBack) Attributes() backend.Attributes {
	a := b.Backend.Attributes()
	a.VolatileCache = true
	return a
}

func (b writeBack) Flush() error {
	b.flushes.Add(1)
	return b.Backend.Flush()
}

// TestShutdownIsBounded protects an administrator from a disk that hangs.
func TestShutdownIsBounded(t *testing.T) {
	e, h, _, q, _ := heldWrite(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := e.target.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	q.lost()
	close(h.let)
	e.target.work.Wait()
	if err := e.target.closeDevices(); err != nil {
		t.Error(err)
	}
}

// TestControllerShutdownFlushes protects data that a host believes to be safe after
// it shut its controller down.
func TestControllerShutdownFlushes(t *testing.T) {
	e := newEnv(t)
	var flushes atomic.Int32
	e.add(writeBack{mustRAM(t), &flushes}, nil)
	admin, cntlid := e.admin(testNQN)
	q := e.io(cntlid, 1, 16)
	q.fill(0, 8, 1)
	admin.setCC(wire.MakeCC(0).WithEN(true).WithSHN(wire.ShutdownNormal))
	e.until("the shutdown is complete", func() bool {
		return wire.CSTS(admin.property(wire.PropertyCSTS)).SHST() == wire.ShutdownComplete
	})
	if n := flushes.Load(); n != 1 {
		t.Errorf("%d flushes", n)
	}
	if cqe := q.do(wire.FlushSQE(1)); cqe.Status.Code() != wire.StatusCommandSequenceError {
		t.Errorf("i/o after a shutdown: %v", cqe.Status)
	}
}

// TestControllerEnded protects commands that come when their controller has ended and
// their connection has not yet: an answer would be final, so there is none.
func TestControllerEnded(t *testing.T) {
	e := newEnv(t)
	e.addRAM(1 << 20)
	_, cntlid := e.admin(testNQN)
	q := e.io(cntlid, 1, 16)
	q.fill(0, 8, 1)
	s := e.target.subsystem(testNQN)
	s.mu.Lock()
	c := s.controllers[cntlid]
	s.mu.Unlock()
	c.mu.Lock()
	c.enter(controllerFailed)
	c.mu.Unlock()
	q.send(wire.FlushSQE(1), nil)
	if cqe, err := q.answer(); err == nil {
		t.Errorf("answered: %v", cqe.Status)
	}
	q.lost()
}

// TestWriteThrough protects feature 06h: with the cache off every write is durable.
func TestWriteThrough(t *testing.T) {
	e := newEnv(t)
	var flags atomic.Uint32
	e.add(flagSpy{mustRAM(t), &flags}, nil)
	admin, cntlid := e.admin(testNQN)
	q := e.io(cntlid, 1, 16)
	q.fill(0, 1, 1)
	if f := backend.Flags(flags.Load()); f != 0 {
		t.Errorf("plain write: flags %d", f)
	}
	sqe := q.rangeCmd(wire.IOWrite, 0, 1)
	sqe.SetFUA(true)
	q.must(sqe)
	if f := backend.Flags(flags.Load()); f != backend.FUA {
		t.Errorf("FUA write: flags %d", f)
	}
	admin.must(wire.SetFeatures{FID: wire.FeatureVolatileWriteCache}.SQE())
	flags.Store(0)
	q.fill(0, 1, 1)
	if f := backend.Flags(flags.Load()); f != backend.FUA {
		t.Errorf("write with the cache off: flags %d", f)
	}
}

// flagSpy notes the flags of the latest write.
type flagSpy struct {
	backend.Backend
	flags *atomic.Uint32
}

func (b flagSpy) TryWriteAt(p []byte, off int64, flags backend.Flags) error {
	b.flags.Store(uint32(flags))
	return b.Backend.TryWriteAt(p, off, flags)
}

// TestRemoveNamespaceWaits protects a backend from being closed under a command.
func TestRemoveNamespaceWaits(t *testing.T) {
	e, h, _, q, _ := heldWrite(t)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := e.target.RemoveNamespace(ctx, testNQN, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if err := e.target.RemoveNamespace(t.Context(), testNQN, 1); !errors.Is(err, ErrNotFound) {
		t.Errorf("removed twice: %v", err)
	}
	close(h.let)
	if cqe, err := q.answer(); err != nil || !cqe.Status.OK() {
		t.Errorf("%v, %v", cqe.Status, err)
	}
	if cqe := q.do(wire.FlushSQE(1)); cqe.Status.Code() != wire.StatusInvalidNamespace {
		t.Errorf("%v", cqe.Status)
	}
}

// TestPolicyFor protects the rule who is let in where.
func TestPolicyFor(t *testing.T) {
	for _, c := range []struct {
		host string
		any  bool
		want bool
	}{
		{"127.0.0.1", false, true}, {"127.9.9.9", false, true}, {"::1", false, true}, {"::ffff:127.0.0.1", false, true}, {"localhost", false, true},
		{"", false, false}, {"0.0.0.0", false, false}, {"10.0.0.1", false, false}, {"fe80::1%eth0", false, false}, {"127.0.0.1.example", false, false},
		{"10.0.0.1", true, true},
	} {
		a := verbsAddr(c.host)
		p := PolicyFor(a, []string{"nqn.a"}, c.any)
		if p.allows("nqn.b") != c.want || !p.allows("nqn.a") {
			t.Errorf("%q: a stranger is let in: %v", c.host, !c.want)
		}
	}
}

// TestConfigErrors protects against settings that can't work.
func TestConfigErrors(t *testing.T) {
	for want, c := range map[string]Config{
		"buffers":     {BufferBytes: 1},
		"queue depth": {QueueDepth: 1},
		"in-capsule":  {InCapsuleBytes: 100},
		"i/o queues":  {IOQueues: 5000},
		"controllers": {Controllers: 1 << 20},
		"connections": {Connections: -1},
		"time-out":    {DrainTimeout: -1},
		"too long":    {Firmware: "123456789"},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
