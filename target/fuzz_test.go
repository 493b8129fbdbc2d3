package target

import (
	"testing"
	"time"

	"rbd/target/backend"
	"rbd/verbs"
	"rbd/verbs/iwarp"
	"rbd/wire"
	"rbd/wire/wiretest"
)

// fakeQP stands in for a connection: it keeps what is posted.
type fakeQP struct {
	verbs.QP
	recvs []uint32 // posted receive buffers
	sends []verbs.SendWR
	fresh int // sends that were not looked at
}

func (f *fakeQP) PostRecv(wrs []verbs.RecvWR) error {
	for _, wr := range wrs {
		_, i := splitWorkID(wr.ID)
		f.recvs = append(f.recvs, i)
	}
	return nil
}

func (f *fakeQP) PostSend(wrs []verbs.SendWR) error {
	f.sends = append(f.sends, wrs...)
	f.fresh += len(wrs)
	return nil
}

// harness drives a queue without a transport: the test delivers capsules and
// completes work, and each command must be answered once.
type harness struct {
	t        *testing.T
	q        *queue
	qp       *fakeQP
	cut      error
	commands map[uint16]int // outstanding, by identifier
	written  bool           // an RDMA WRITE awaits its SEND
	answers  []wire.CQE
}

func newHarness(t *testing.T, target *Target, dev *deviceResources, qid uint16, depth int) *harness {
	t.Helper()
	q, err := newQueue(target, dev, depth)
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, q: q, qp: &fakeQP{}, commands: map[uint16]int{}}
	q.qp, q.hostQID, q.at = h.qp, qid, &endpoint{policy: &AccessPolicy{AnyHost: true}}
	q.cut, q.wake = func(err error) { h.cut = err }, func() {}
	for i := range depth {
		h.qp.recvs = append(h.qp.recvs, uint32(i))
	}
	return h
}

// deliver is the arrival of a capsule; nothing happens if no receive is posted, for
// then a transport ends the connection.
func (h *harness) deliver(capsule []byte) {
	if len(h.qp.recvs) == 0 || h.q.state == queueDead {
		return
	}
	i := h.qp.recvs[0]
	h.qp.recvs = h.qp.recvs[1:]
	n := copy(h.q.mem.capsule(i), capsule)
	if n >= wire.SQESize {
		var sqe wire.SQE
		if err := sqe.Parse(capsule[:wire.SQESize]); err != nil {
			h.t.Fatal(err)
		}
		h.commands[sqe.CID]++
	}
	h.q.complete([]verbs.WC{{ID: workID(workRecv, i), Opcode: verbs.WCRecv, ByteLen: uint32(n)}})
	h.look()
}

// look checks what was posted since the last time.
func (h *harness) look() {
	fresh := h.qp.sends[len(h.qp.sends)-h.qp.fresh:]
	h.qp.fresh = 0
	for i := range fresh {
		wr := &fresh[i]
		kind, index := splitWorkID(wr.ID)
		if len(wr.SGEs) != 1 || index >= uint32(len(h.q.slots)) {
			h.t.Fatalf("%s: %+v", kind, wr)
		}
		switch kind {
		case workWrite:
			h.written = true
		case workSend:
			h.written = false
			var cqe wire.CQE
			if err := cqe.Parse(h.q.mem.response(index)); err != nil {
				h.t.Fatal(err)
			}
			if h.commands[cqe.CID]--; h.commands[cqe.CID] < 0 {
				h.t.Fatalf("answer to command %d, which is not outstanding", cqe.CID)
			}
			h.answers = append(h.answers, cqe)
		}
	}
	if h.written {
		h.t.Fatal("data without an answer behind it")
	}
}

// complete ends up to n pieces of posted work, in order.
func (h *harness) complete(n int, status verbs.WCStatus) {
	for ; n > 0 && len(h.qp.sends) > 0; n-- {
		wr := h.qp.sends[0]
		h.qp.sends = h.qp.sends[1:]
		if wr.Flags&verbs.SendSignaled == 0 && status == verbs.WCSuccess {
			continue
		}
		kind, index := splitWorkID(wr.ID)
		if kind == workRead && status == verbs.WCSuccess && wr.SGEs[0].Length == wire.ConnectDataSize {
			d := connectData(wire.CNTLIDDynamic)
			copy(h.q.slots[index].payload, d.Append(nil))
		}
		h.q.complete([]verbs.WC{{ID: wr.ID, Status: status}})
		h.look()
	}
}

// finish completes all work, and checks that every command was answered, but for
// those that a controller keeps.
func (h *harness) finish() {
	for len(h.qp.sends) > 0 {
		h.complete(1, verbs.WCSuccess)
	}
	if h.q.state == queueDead {
		return
	}
	outstanding := 0
	for _, n := range h.commands {
		outstanding += n
	}
	if outstanding != h.q.parked {
		h.t.Fatalf("%d commands are not answered, %d are kept", outstanding, h.q.parked)
	}
	if len(h.qp.recvs)+outstanding != len(h.q.mem.recvs) {
		h.t.Fatalf("%d receives are posted, %d commands outstanding", len(h.qp.recvs), outstanding)
	}
	if free, size := h.q.pool.Free(), h.q.pool.Size(); free != size {
		h.t.Fatalf("%d bytes of buffers are not back", size-free)
	}
}

// close tears the queue down.
func (h *harness) close() {
	if b := h.q.bound.Load(); b != nil {
		b.ctrl.lose(b.binding, nil)
	}
	h.q.call(h.q.die)
	select {
	case <-h.q.drained:
	case <-time.After(testWait):
		for i := range h.q.slots {
			if s := &h.q.slots[i]; s.state != slotFree {
				h.t.Errorf("slot %d is %s", i, s.state)
			}
		}
		h.t.Fatal("the queue does not end")
	}
	if b := h.q.bound.Load(); b != nil {
		b.ctrl.drained(b.binding)
	}
	if err := h.q.mem.free(); err != nil {
		h.t.Fatal(err)
	}
}

// do delivers a command and completes it.
func (h *harness) do(sqe wire.SQE, inCapsule []byte) wire.CQE {
	h.t.Helper()
	h.answers = nil
	h.deliver(append(sqe.Append(nil), inCapsule...))
	h.finish()
	if len(h.answers) != 1 || !h.answers[0].Status.OK() {
		h.t.Fatalf("opcode 0x%x: %+v", sqe.Opcode, h.answers)
	}
	return h.answers[0]
}

func (h *harness) connect(qid, cntlid uint16) uint16 {
	h.t.Helper()
	d := connectData(cntlid)
	sqe := wire.Connect{QID: qid, SQSize: uint16(len(h.q.mem.recvs) - 1)}.SQE()
	sqe.SGL = wire.OffsetSGL(0, wire.ConnectDataSize)
	return uint16(h.do(sqe, d.Append(nil)).Result)
}

// The steps of a fuzzed exchange; see FuzzQueue.
const (
	stepDeliver = iota
	stepComplete
	stepBreak
	stepCount
)

// FuzzQueue protects the target from whatever a peer sends, in whatever order its
// work completes: no panic, one answer for each command, all buffers back. The
// input is a mode (a new queue, an admin queue, an I/O queue) and steps: a capsule
// with its in-capsule data, or completions.
func FuzzQueue(f *testing.F) {
	for mode, name := range []string{"connect-unknown-nqn", "admin-queue", "io-queue"} {
		s, err := wiretest.LoadStream("../wire/testdata/siw-stream-" + name + ".txt.gz")
		if err != nil {
			f.Fatal(err)
		}
		list, err := s.Exchanges()
		if err != nil {
			f.Fatal(err)
		}
		seed := []byte{byte(mode)}
		for i, x := range list {
			if i > 40 {
				break
			}
			seed = append(seed, stepDeliver, byte((len(x.Capsule)-wire.SQESize)/64))
			seed = append(seed, x.Capsule[:wire.SQESize]...)
			if i%3 == 2 {
				seed = append(seed, stepComplete, byte(i))
			}
		}
		f.Add(seed)
		f.Add(append(seed[:len(seed)/2:len(seed)/2], stepBreak, 1))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		target, dev := fuzzTarget(t)
		admin := newHarness(t, target, dev, 0, 8)
		h := admin
		mode := byte(0)
		if len(input) > 0 {
			mode, input = input[0]%3, input[1:]
		}
		if mode > 0 {
			cntlid := admin.connect(0, wire.CNTLIDDynamic)
			admin.do(wire.NewPropertySet(wire.PropertyCC, uint64(wire.MakeCC(0).WithEN(true))).SQE(), nil)
			if mode == 2 {
				h = newHarness(t, target, dev, 1, 8)
				h.connect(1, cntlid)
			}
		}
		h.play(input)
		h.finish()
		if h != admin {
			h.close()
		}
		admin.close()
		if dev.pool.Free() != dev.pool.Size() {
			t.Fatalf("%d bytes of buffers are lost", dev.pool.Size()-dev.pool.Free())
		}
		if err := target.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

func fuzzTarget(t *testing.T) (*Target, *deviceResources) {
	t.Helper()
	target, err := New(Config{BufferBytes: 2 << 20, InCapsuleBytes: 4096})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		b, err := backend.NewRAM(1<<20, 512)
		if err != nil {
			t.Fatal(err)
		}
		var ns backend.Backend = b
		if i == 1 {
			ns = backend.ReadOnly(b)
		}
		if _, err := target.AddNamespace(Export{NQN: testNQN, Backend: ns}); err != nil {
			t.Fatal(err)
		}
	}
	devices, err := iwarp.New().Devices()
	if err != nil {
		t.Fatal(err)
	}
	dev, err := target.device(devices[0])
	if err != nil {
		t.Fatal(err)
	}
	return target, dev
}

// play executes the steps of an input.
func (h *harness) play(input []byte) {
	for steps := 0; len(input) >= 2 && steps < 500; steps++ {
		step, arg := input[0]%stepCount, int(input[1])
		input = input[2:]
		switch step {
		case stepDeliver:
			n := min(len(input), wire.SQESize)
			h.deliver(append(input[:n:n], make([]byte, arg%65*64)...))
			input = input[n:]
		case stepComplete:
			h.complete(arg%8+1, verbs.WCSuccess)
		case stepBreak:
			if arg%16 == 1 {
				h.complete(1, verbs.WCRemAccessErr)
			}
		}
	}
}
