package target

import (
	"net"
	"testing"
	"time"

	"rbd/internal/netfault"
	"rbd/target/backend"
	"rbd/wire"
)

// through makes later connections of an env go through a proxy.
func (e *env) through() *netfault.Proxy {
	e.t.Helper()
	p, err := netfault.New(e.addr.HostPort())
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(p.Close)
	_, port, err := net.SplitHostPort(p.Addr())
	if err != nil {
		e.t.Fatal(err)
	}
	e.addr.Port = port
	return p
}

// flood connects another host with four queues, and returns what sends more writes
// than there are buffers for.
func (e *env) flood(nqn string) (send func()) {
	e.t.Helper()
	d := connectData(wire.CNTLIDDynamic)
	d.SubNQN, d.HostID[0] = wire.MakeNQNField(nqn), 9
	admin, err := e.dial(0, adminDepth)
	if err != nil {
		e.t.Fatal(err)
	}
	d.CNTLID = uint16(admin.connect(wire.Connect{SQSize: adminDepth - 1}, d).Result)
	admin.setCC(wire.MakeCC(0).WithEN(true))
	queues := make([]*hostQueue, 4)
	for i := range queues {
		if queues[i], err = e.dial(uint16(i+1), 16); err != nil {
			e.t.Fatal(err)
		}
		if cqe := queues[i].connect(wire.Connect{QID: uint16(i + 1), SQSize: 15}, d); !cqe.Status.OK() {
			e.t.Fatal(cqe.Status)
		}
	}
	return func() {
		for _, q := range queues {
			for cid := range uint16(4) {
				sqe := q.rangeCmd(wire.IOWrite, 0, maxTransfer/512)
				sqe.CID = cid
				q.send(sqe, nil)
			}
		}
		e.until("writes wait for buffers", func() bool { return e.waiting() > 0 })
	}
}

// waiting is how many slots wait for a buffer.
func (e *env) waiting() (n int) {
	e.target.mu.Lock()
	defer e.target.mu.Unlock()
	for c := range e.target.conns {
		count := make(chan int)
		c.q.call(func() {
			waiting := 0
			for i := range c.q.slots {
				if c.q.slots[i].state == slotWaitBuffer {
					waiting++
				}
			}
			go func() { count <- waiting }()
		})
		n += <-count
	}
	return n
}

// TestHungDisk protects the users of all other disks from one that hangs: its writes
// do not keep all buffers.
func TestHungDisk(t *testing.T) {
	e := newEnv(t)
	let := make(chan struct{})
	defer close(let)
	hung := backend.Intercept(mustRAM(t), func(backend.Op, int64, int64) error { <-let; return nil })
	if _, err := e.target.AddNamespace(Export{NQN: testNQN + "2", Backend: hung}); err != nil {
		t.Fatal(err)
	}
	e.addRAM(1 << 20)
	check := e.witness()
	e.flood(testNQN + "2")()
	check()
	e.witness()() // also of those who come now
}

// TestStoppedHost protects all other hosts from one that has stopped in the midst of
// its transfers.
func TestStoppedHost(t *testing.T) {
	e := newEnv(t)
	e.addRAM(1 << 20)
	check := e.witness()
	direct := e.addr
	p := e.through()
	send := e.flood(testNQN)
	e.addr = direct
	p.FreezeReplies()
	send()
	check()
	e.witness()()
	p.Thaw()
}

// TestLargeCommandIsNotOvertaken protects large commands of a busy host from its small
// ones: they get their buffers in the order in which they came.
func TestLargeCommandIsNotOvertaken(t *testing.T) {
	e := newEnv(t)
	e.add(backend.Delay(mustRAM(t), backend.Delays{backend.OpWrite: 50 * time.Millisecond}), nil)
	_, cntlid := e.admin(testNQN)
	q := e.io(cntlid, 1, 64)
	small := func(cid uint16) {
		sqe := q.rangeCmd(wire.IOWrite, 0, 256<<10/512)
		sqe.CID = cid
		q.send(sqe, nil)
	}
	for cid := range uint16(8) {
		small(cid)
		time.Sleep(6 * time.Millisecond) // so that they do not end together
	}
	large := q.rangeCmd(wire.IOWrite, 0, maxTransfer/512)
	large.CID = 99
	q.send(large, nil)
	for done := 0; ; done++ {
		cqe, err := q.answer()
		if err != nil || !cqe.Status.OK() {
			t.Fatalf("%v, %v", cqe.String(), err)
		}
		if cqe.CID == large.CID {
			break
		}
		if done > 48 {
			t.Fatalf("%d later writes have overtaken a large one", done-8)
		}
		small(cqe.CID)
	}
}

// slowTrim is a backend that never waits, whose Trim takes its time.
type slowTrim struct {
	backend.Backend
	began, let chan struct{}
}

func (s slowTrim) Trim(off, n int64) error {
	s.began <- struct{}{}
	<-s.let
	return s.Backend.Trim(off, n)
}

// TestLargeTrim protects the other commands of a queue, and the end of its connection,
// from one that frees a lot of memory.
func TestLargeTrim(t *testing.T) {
	e := newEnv(t)
	ram, err := backend.NewRAM(8<<20, 512)
	s := slowTrim{ram, make(chan struct{}, 2), make(chan struct{})}
	e.add(s, err)
	_, cntlid := e.admin(testNQN)
	q := e.io(cntlid, 1, 16)
	trim := wire.DSMSQE(1, 2, wire.DSMDeallocate)
	trim.CID = 77
	trim.SGL = wire.OffsetSGL(0, 2*wire.DSMRangeSize)
	one, two := wire.DSMRange{Blocks: 1024}, wire.DSMRange{SLBA: 4096, Blocks: 1025}
	q.send(trim, two.Append(one.Append(nil)))
	<-s.began
	q.fill(0, 1, 'x')
	close(s.let)
	if cqe, err := q.answer(); err != nil || cqe.CID != trim.CID || !cqe.Status.OK() {
		t.Errorf("%v, %v", cqe.String(), err)
	}
}
