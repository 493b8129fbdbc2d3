package target

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"rbd/wire"
)

// witness is a well-behaved host beside one that is not.
func (e *env) witness() func() {
	e.t.Helper()
	_, cntlid := e.admin(testNQN)
	q := e.io(cntlid, 1, 16)
	return func() {
		e.t.Helper()
		q.fill(0, 8, 3)
		if !all(q.blocksOf(0, 8), 3) {
			e.t.Error("a well-behaved host reads other data")
		}
	}
}

// TestMisbehaviour protects all other hosts from one that does not keep to the
// protocol: it loses its own connection.
func TestMisbehaviour(t *testing.T) {
	e := newEnv(t)
	e.addRAM(1 << 20)
	check := e.witness()
	bad := func(key uint32, addr uint64, n uint32) wire.SGL { return wire.KeyedSGL(addr, n, key, false) }
	for _, c := range []struct {
		name string
		do   func(q *hostQueue)
	}{
		{"empty capsule", func(q *hostQueue) { q.sendRaw(nil) }},
		{"short capsule", func(q *hostQueue) { q.sendRaw(make([]byte, 63)) }},
		{"read to a wrong key", func(q *hostQueue) {
			sqe := q.rangeCmd(wire.IORead, 0, 8)
			sqe.SGL = bad(0xDEADBEEF, 0, 4096)
			q.send(sqe, nil)
		}},
		{"read beyond the region", func(q *hostQueue) {
			sqe := q.rangeCmd(wire.IORead, 0, 8)
			sqe.SGL = bad(q.mr.RKey(), q.mr.Addr()+uint64(q.mr.Len())-4095, 4096)
			q.send(sqe, nil)
		}},
		{"write from a wrong key", func(q *hostQueue) {
			sqe := q.rangeCmd(wire.IOWrite, 0, 8)
			sqe.SGL = bad(0xDEADBEEF, 0, 4096)
			q.send(sqe, nil)
		}},
		{"write from an address that wraps", func(q *hostQueue) {
			sqe := q.rangeCmd(wire.IOWrite, 0, 8)
			sqe.SGL = bad(q.mr.RKey(), 1<<64-1, 4096)
			q.send(sqe, nil)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			admin, cntlid := e.admin(testNQN)
			q := e.io(cntlid, 1, 16)
			c.do(q)
			q.lost()
			check()
			admin.must(wire.KeepAliveSQE())
		})
	}
}

// TestOversizedCapsule protects against a capsule that does not fit its receive.
func TestOversizedCapsule(t *testing.T) {
	e := newEnv(t, withConfig(func(c *Config) { c.InCapsuleBytes = 4096 }))
	e.addRAM(1 << 20)
	check := e.witness()
	_, cntlid := e.admin(testNQN)
	q := e.io(cntlid, 1, 16)
	sqe := q.rangeCmd(wire.IOWrite, 0, 8)
	sqe.SGL = wire.OffsetSGL(0, 4096)
	q.must(sqe, make([]byte, 4096)...)
	q.send(sqe, make([]byte, 4097))
	q.lost()
	check()
}

// TestCommandFlood protects the bounds: a host that sends more commands than it may
// have outstanding loses its connection.
func TestCommandFlood(t *testing.T) {
	e := newEnv(t)
	h := newHeld(t)
	e.add(h, nil)
	_, cntlid := e.admin(testNQN)
	q := e.io(cntlid, 1, 8)
	for i := range 8 {
		sqe := q.rangeCmd(wire.IOWrite, 0, 1)
		sqe.CID = uint16(i)
		q.send(sqe, nil)
		<-h.began
	}
	sqe := q.rangeCmd(wire.IORead, 0, 1)
	sqe.CID = 100
	q.send(sqe, nil)
	q.lost()
	close(h.let)
}

// TestNoConnect protects the target from connections that never say who they are.
func TestNoConnect(t *testing.T) {
	e := newEnv(t, withConfig(func(c *Config) { c.ConnectTimeout = 500 * time.Millisecond }))
	e.addRAM(1 << 20)
	q, err := e.dial(0, 32)
	if err != nil {
		t.Fatal(err)
	}
	q.lost()
	admin, _ := e.admin(testNQN)
	time.Sleep(600 * time.Millisecond)
	admin.must(wire.KeepAliveSQE())
}

// TestStalledPeer protects the buffers from a peer that has commands in hand but
// does none of their RDMA work: here one that never answers an RDMA READ.
func TestStalledPeer(t *testing.T) {
	e := newEnv(t, withConfig(func(c *Config) { c.TransferTimeout = 200 * time.Millisecond }))
	e.addRAM(8 << 20)
	check := e.witness()
	c, err := net.Dial("tcp", e.addr.HostPort())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(testWait))
	cm := wire.CMRequest{HRQSize: 32, HSQSize: 31}
	// MPA request, revision 2 with IRD 1, then the connect command as a SEND.
	if _, err := c.Write(cm.Append([]byte("MPA ID Req Frame\x10\x02\x00\x24\x00\x01\x00\x00"))); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 20+36)); err != nil {
		t.Fatal(err)
	}
	sqe := wire.Connect{SQSize: 31}.SQE()
	sqe.SGL = wire.KeyedSGL(4096, wire.ConnectDataSize, 1, false)
	send := []byte{0, 18 + wire.SQESize, 0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}
	if _, err := c.Write(append(sqe.Append(send), 0, 0, 0, 0)); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if _, err := io.Copy(io.Discard, c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("not cut: %v", err)
	}
	if d := time.Since(start); d < 100*time.Millisecond {
		t.Errorf("cut after %v", d)
	}
	check() // a peer that is idle, or takes part, is not cut
}

// TestStallWatch protects peers that make progress, however slow.
func TestStallWatch(t *testing.T) {
	q := &queue{}
	var w stallWatch
	for i, step := range []struct {
		waiting  int32
		progress uint32
		want     bool
	}{{0, 0, false}, {1, 1, false}, {1, 1, false}, {1, 2, false}, {1, 2, false}, {0, 2, false}, {1, 2, false}, {1, 2, false}, {1, 2, true}} {
		q.waiting.Store(step.waiting)
		q.progress.Store(step.progress)
		if w.check(q) != step.want {
			t.Errorf("look %d: %v", i, !step.want)
		}
	}
}

// TestTooManyConnections protects the bound, and tells the host why.
func TestTooManyConnections(t *testing.T) {
	e := newEnv(t, withConfig(func(c *Config) { c.Connections = 2 }))
	e.addRAM(1 << 20)
	first, _ := e.admin(testNQN)
	e.admin(testNQN)
	if _, err := e.dial(0, 32); err == nil {
		t.Error("a third connection was accepted")
	}
	first.close()
	e.until("there is room again", func() bool {
		_, err := e.dial(0, 32)
		return err == nil
	})
}

// TestTooManyControllers protects the bound on controllers, which is given back.
func TestTooManyControllers(t *testing.T) {
	e := newEnv(t, withConfig(func(c *Config) { c.Controllers = 1 }))
	e.addRAM(1 << 20)
	first, _ := e.admin(testNQN)
	second, err := e.dial(0, 32)
	if err != nil {
		t.Fatal(err)
	}
	if cqe := second.connect(wire.Connect{SQSize: 31}, connectData(wire.CNTLIDDynamic)); cqe.Status != wire.StatusConnectControllerBusy {
		t.Errorf("%v", cqe.Status)
	}
	first.close()
	e.until("there is room again", func() bool {
		return second.connect(wire.Connect{SQSize: 31}, connectData(wire.CNTLIDDynamic)).Status.OK()
	})
}

// TestManyDiscoveryControllers protects those who may use a disk from those who may
// only discover: they take no controllers of disks, and must show signs of life.
func TestManyDiscoveryControllers(t *testing.T) {
	e := newEnv(t, withConfig(func(c *Config) { c.Controllers = 8 }), withPolicy(AccessPolicy{Hosts: []string{testHost}}))
	e.addRAM(1 << 20)
	d := connectData(wire.CNTLIDDynamic)
	d.SubNQN = wire.MakeNQNField(wire.DiscoveryNQN)
	d.HostNQN = wire.MakeNQNField("nqn.2014-08.org.nvmexpress:uuid:99999999-2222-3333-4444-555555555555")
	for i := range 10 {
		q, err := e.dial(0, adminDepth)
		if err != nil {
			t.Fatal(err)
		}
		cqe := q.connect(wire.Connect{SQSize: adminDepth - 1, KATO: 0xFFFFFFFF}, d)
		if cqe.Status.OK() != (i < 2) {
			t.Errorf("discovery controller %d: %v", i, cqe.Status)
		}
		if i > 0 {
			continue
		}
		q.setCC(wire.MakeCC(0).WithEN(true))
		for _, when := range []string{"that is too long", "that was turned off"} {
			cqe := q.must(wire.GetFeatures{FID: wire.FeatureKeepAlive}.SQE())
			if ms := cqe.DW0(); ms != uint32(discoveryKATO/time.Millisecond) {
				t.Errorf("keep alive timeout %s: %d ms", when, ms)
			}
			q.must(wire.SetFeatures{FID: wire.FeatureKeepAlive}.SQE())
		}
	}
	e.witness()()
}

// TestBuffersRunOut protects commands that find no buffer: they wait, and all are
// done in the end, on all queues.
func TestBuffersRunOut(t *testing.T) {
	e := newEnv(t, withConfig(func(c *Config) { c.BufferBytes = 2 << 20 }))
	e.addRAM(8 << 20)
	_, cntlid := e.admin(testNQN)
	queues := []*hostQueue{e.io(cntlid, 1, 16), e.io(cntlid, 2, 16)}
	const n = 1 << 20 / 512
	for i, q := range queues {
		copy(q.data(1<<20), bytes.Repeat([]byte{byte(i + 1)}, 1<<20))
	}
	for round := range 4 {
		for i, q := range queues {
			for cid := range uint16(12) {
				op := wire.IOWrite
				if round%2 == 1 {
					op = wire.IORead
				}
				sqe := q.rangeCmd(op, uint64(i)*n, n)
				sqe.CID = cid
				q.send(sqe, nil)
			}
		}
		for _, q := range queues {
			seen := map[uint16]bool{}
			for range 12 {
				cqe, err := q.answer()
				if err != nil || !cqe.Status.OK() || seen[cqe.CID] {
					t.Fatalf("%v, %v", cqe.String(), err)
				}
				seen[cqe.CID] = true
			}
		}
	}
	for i, q := range queues {
		if !all(q.data(1<<20), byte(i+1)) {
			t.Errorf("queue %d has other data", i)
		}
	}
	// With all buffers taken a host that goes away leaves none behind.
	for cid := range uint16(12) {
		sqe := queues[0].rangeCmd(wire.IORead, 0, n)
		sqe.CID = cid
		queues[0].send(sqe, nil)
	}
	queues[0].close()
	e.gone(cntlid, 1)
	queues[1].must(queues[1].rangeCmd(wire.IORead, 0, n))
	e.target.mu.Lock()
	defer e.target.mu.Unlock()
	for _, d := range e.target.devices {
		d := d
		e.until("all buffers are back", func() bool { return d.pool.Free() == d.pool.Size() })
	}
}

// TestServeEnds protects the ways in which Serve ends.
func TestServeEnds(t *testing.T) {
	e := newEnv(t)
	l, err := e.provider.Listen(t.Context(), verbsAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- e.target.Serve(ctx, l, AccessPolicy{}) }()
	cancel()
	if err := <-done; err == nil {
		t.Error("no error when the context ends")
	}
	e.close()
	e.served = nil
	l, err = e.provider.Listen(t.Context(), verbsAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := e.target.Serve(t.Context(), l, AccessPolicy{}); err == nil {
		t.Error("serves after a shutdown")
	}
}
