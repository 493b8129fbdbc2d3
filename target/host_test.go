package target

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"rbd/target/backend"
	"rbd/verbs"
	"rbd/verbs/iwarp"
	"rbd/wire"
)

const (
	testNQN  = "nqn.2026-11.io.rbd:test"
	testHost = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"
	testWait = 10 * time.Second
)

// env is a target that serves one loopback listener, and a provider to reach it.
type env struct {
	t        testing.TB
	target   *Target
	addr     verbs.Addr
	provider *iwarp.Provider
	served   chan error
}

type envOption func(*Config, *AccessPolicy)

func withConfig(f func(*Config)) envOption { return func(c *Config, _ *AccessPolicy) { f(c) } }

func withPolicy(p AccessPolicy) envOption { return func(_ *Config, have *AccessPolicy) { *have = p } }

// testLog shows the target's log in the test's.
type testLog struct{ t testing.TB }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Log(string(b[:len(b)-1]))
	return len(b), nil
}

func newEnv(t testing.TB, opts ...envOption) *env {
	t.Helper()
	cfg := Config{BufferBytes: 8 << 20, Log: slog.New(slog.NewTextHandler(testLog{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	policy := AccessPolicy{AnyHost: true}
	for _, o := range opts {
		o(&cfg, &policy)
	}
	target, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	e := &env{t: t, target: target, provider: iwarp.New(), served: make(chan error, 1)}
	l, err := e.provider.Listen(t.Context(), verbsAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	e.addr = l.Addr()
	go func() { e.served <- target.Serve(context.Background(), l, policy) }()
	t.Cleanup(e.close)
	return e
}

func (e *env) close() {
	ctx, cancel := context.WithTimeout(context.Background(), testWait)
	defer cancel()
	if err := e.target.Shutdown(ctx); err != nil && !errors.Is(err, ErrShutdown) {
		e.t.Errorf("shutdown: %v", err)
	}
	if e.served != nil {
		if err := <-e.served; err != nil && !errors.Is(err, ErrShutdown) {
			e.t.Errorf("serve: %v", err)
		}
	}
}

func (e *env) add(b backend.Backend, err error) ExportInfo {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
	info, err := e.target.AddNamespace(Export{NQN: testNQN, Backend: b})
	if err != nil {
		e.t.Fatal(err)
	}
	return info
}

func (e *env) addRAM(size int64) backend.Backend {
	e.t.Helper()
	b, err := backend.NewRAM(size, 512)
	e.add(b, err)
	return b
}

// hostQueue is the host's side of one queue: raw capsules on a QP.
type hostQueue struct {
	t     testing.TB
	id    verbs.CMID
	pd    verbs.PD
	cq    verbs.CQ
	qp    verbs.QP
	mr    verbs.MR
	mem   []byte
	depth int
	cid   uint16
	sends int // outstanding
	recvs []verbs.WC
	last  verbs.WC // of the latest answer
	// reply is the target's private data.
	reply verbs.ConnParam
}

// The layout of a hostQueue's memory.
const (
	hostCapsule = 64 + 8192
	hostData    = 2 << 20 // for the data of commands, at the end
)

// dial connects a queue without Fabrics Connect. pd may be another queue's, to share it.
func (e *env) dial(qid uint16, depth int) (*hostQueue, error) {
	req := wire.CMRequest{QID: qid, HRQSize: uint16(depth), HSQSize: uint16(depth - 1)}
	return e.dialRaw(depth, verbs.ConnParam{PrivateData: req.Append(nil), ResponderResources: 64})
}

func (e *env) dialRaw(depth int, p verbs.ConnParam) (*hostQueue, error) {
	e.t.Helper()
	id, err := e.provider.ResolveAddr(e.t.Context(), e.addr)
	if err != nil {
		e.t.Fatal(err)
	}
	q := &hostQueue{t: e.t, id: id, depth: depth}
	must := func(err error) {
		if err != nil {
			e.t.Helper()
			e.t.Fatal(err)
		}
	}
	q.pd, err = id.Device().AllocPD()
	must(err)
	q.cq, err = id.Device().CreateCQ(verbs.CQAttr{Depth: 8 * depth})
	must(err)
	q.qp, err = id.CreateQP(q.pd, verbs.QPInitAttr{SendCQ: q.cq, RecvCQ: q.cq, Cap: verbs.QPCap{MaxSendWR: 2 * depth, MaxRecvWR: 2 * depth}})
	must(err)
	q.mem, err = verbs.AllocMemory(depth*(hostCapsule+wire.CQESize) + hostData)
	must(err)
	q.mr, err = q.pd.RegMR(q.mem, verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite)
	must(err)
	e.t.Cleanup(q.close)
	for i := range depth {
		q.postRecv(i)
	}
	ctx, cancel := context.WithTimeout(e.t.Context(), testWait)
	defer cancel()
	q.reply, err = id.Connect(ctx, p)
	return q, err
}

func (q *hostQueue) close() {
	if q.id == nil {
		return
	}
	q.id.Disconnect()
	err := errors.Join(q.qp.Destroy(), q.cq.Destroy(), q.mr.Dereg(), q.pd.Dealloc(), verbs.FreeMemory(q.mem), q.id.Destroy())
	if err != nil {
		q.t.Errorf("close a host queue: %v", err)
	}
	q.id = nil
}

func (q *hostQueue) response(i int) []byte {
	off := q.depth*hostCapsule + i*wire.CQESize
	return q.mem[off : off+wire.CQESize]
}

// data is the memory that commands move their data from and to.
func (q *hostQueue) data(n int) []byte {
	off := q.depth * (hostCapsule + wire.CQESize)
	return q.mem[off : off+n]
}

// keyed is the SGL of the first n bytes of data.
func (q *hostQueue) keyed(n int) wire.SGL {
	return wire.KeyedSGL(verbs.AddrOf(q.data(1)), uint32(n), q.mr.RKey(), false)
}

func (q *hostQueue) postRecv(i int) {
	b := q.response(i)
	if err := q.qp.PostRecv([]verbs.RecvWR{{ID: 1<<32 | uint64(i), SGEs: []verbs.SGE{{Addr: verbs.AddrOf(b), Length: wire.CQESize, LKey: q.mr.LKey()}}}}); err != nil {
		q.t.Fatal(err)
	}
}

// send posts a capsule, with its command identifier.
func (q *hostQueue) send(sqe wire.SQE, inCapsule []byte) {
	q.t.Helper()
	q.sendRaw(append(sqe.Append(nil), inCapsule...))
}

func (q *hostQueue) sendRaw(capsule []byte) {
	q.t.Helper()
	for q.sends >= q.depth {
		q.poll()
	}
	i := q.sends
	b := q.mem[i*hostCapsule : i*hostCapsule+len(capsule)]
	copy(b, capsule)
	wr := verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{{Addr: verbs.AddrOf(b), Length: uint32(len(b)), LKey: q.mr.LKey()}}}
	if err := q.qp.PostSend([]verbs.SendWR{wr}); err != nil {
		q.t.Fatal(err)
	}
	q.sends++
	for q.sends > 0 { // the buffer is free again
		if err := q.poll(); err != nil {
			return
		}
	}
}

var errQueueLost = errors.New("queue lost")

// poll takes completions; the error says that the connection has ended.
func (q *hostQueue) poll() error {
	q.t.Helper()
	var wcs [16]verbs.WC
	if err := q.cq.ReqNotify(); err != nil {
		q.t.Fatal(err)
	}
	n := q.cq.Poll(wcs[:])
	if n == 0 {
		ctx, cancel := context.WithTimeout(q.t.Context(), testWait)
		defer cancel()
		if err := q.cq.Wait(ctx); err != nil {
			q.t.Fatalf("no completion: %v", err)
		}
		n = q.cq.Poll(wcs[:])
	}
	for _, wc := range wcs[:n] {
		if wc.Status != verbs.WCSuccess {
			return errQueueLost
		}
		if wc.Opcode == verbs.WCRecv {
			q.recvs = append(q.recvs, wc)
		} else {
			q.sends--
		}
	}
	return nil
}

// answer waits for the next response.
func (q *hostQueue) answer() (wire.CQE, error) {
	q.t.Helper()
	for len(q.recvs) == 0 {
		if err := q.poll(); err != nil && len(q.recvs) == 0 {
			return wire.CQE{}, err
		}
	}
	wc := q.recvs[0]
	q.recvs, q.last = q.recvs[1:], wc
	var cqe wire.CQE
	i := int(wc.ID & 0xFFFF)
	if wc.ByteLen != wire.CQESize {
		q.t.Fatalf("a response of %d bytes", wc.ByteLen)
	}
	if err := cqe.Parse(q.response(i)); err != nil {
		q.t.Fatal(err)
	}
	q.postRecv(i)
	return cqe, nil
}

// do executes one command.
func (q *hostQueue) do(sqe wire.SQE, inCapsule ...byte) wire.CQE {
	q.t.Helper()
	q.cid++
	sqe.CID = q.cid
	q.send(sqe, inCapsule)
	cqe, err := q.answer()
	if err != nil {
		q.t.Fatalf("opcode 0x%x: %v", sqe.Opcode, err)
	}
	if cqe.CID != sqe.CID {
		q.t.Fatalf("answer to command %d, want %d", cqe.CID, sqe.CID)
	}
	return cqe
}

// must is do with success.
func (q *hostQueue) must(sqe wire.SQE, inCapsule ...byte) wire.CQE {
	q.t.Helper()
	cqe := q.do(sqe, inCapsule...)
	if !cqe.Status.OK() {
		q.t.Fatalf("opcode 0x%x: %v", sqe.Opcode, cqe.Status)
	}
	return cqe
}

// lost waits for the end of the connection.
func (q *hostQueue) lost() {
	q.t.Helper()
	select {
	case <-q.id.Disconnected():
	case <-time.After(testWait):
		q.t.Fatal("the connection is still up")
	}
}

// connectData is the data of a Connect to the test subsystem.
func connectData(cntlid uint16) wire.ConnectData {
	return wire.ConnectData{HostID: wire.UUID{1, 2, 3}, CNTLID: cntlid, SubNQN: wire.MakeNQNField(testNQN), HostNQN: wire.MakeNQNField(testHost)}
}

// connect sends Fabrics Connect; its data goes by RDMA READ.
func (q *hostQueue) connect(c wire.Connect, d wire.ConnectData) wire.CQE {
	q.t.Helper()
	copy(q.data(wire.ConnectDataSize), d.Append(nil))
	sqe := c.SQE()
	sqe.SGL = q.keyed(wire.ConnectDataSize)
	return q.do(sqe)
}

func (q *hostQueue) property(p wire.Property) uint64 {
	q.t.Helper()
	return q.must(wire.NewPropertyGet(p).SQE()).Result
}

func (q *hostQueue) setCC(cc wire.CC) {
	q.t.Helper()
	q.must(wire.NewPropertySet(wire.PropertyCC, uint64(cc)).SQE())
}

// admin connects an admin queue to a subsystem and enables the controller.
func (e *env) admin(nqn string) (*hostQueue, uint16) {
	e.t.Helper()
	q, err := e.dial(0, adminDepth)
	if err != nil {
		e.t.Fatal(err)
	}
	d := connectData(wire.CNTLIDDynamic)
	d.SubNQN = wire.MakeNQNField(nqn)
	cqe := q.connect(wire.Connect{SQSize: adminDepth - 1, KATO: 60000}, d)
	if !cqe.Status.OK() {
		e.t.Fatalf("connect: %v", cqe.Status)
	}
	q.setCC(wire.MakeCC(0).WithEN(true))
	if csts := wire.CSTS(q.property(wire.PropertyCSTS)); !csts.RDY() {
		e.t.Fatalf("CSTS 0x%x", csts)
	}
	return q, uint16(cqe.Result)
}

// io connects an I/O queue.
func (e *env) io(cntlid, qid uint16, depth int) *hostQueue {
	e.t.Helper()
	q, err := e.dial(qid, depth)
	if err != nil {
		e.t.Fatal(err)
	}
	cqe := q.connect(wire.Connect{QID: qid, SQSize: uint16(depth - 1)}, connectData(cntlid))
	if !cqe.Status.OK() {
		e.t.Fatalf("connect queue %d: %v", qid, cqe.Status)
	}
	return q
}

// rangeCmd is a command with data by a keyed SGL.
func (q *hostQueue) rangeCmd(op wire.IOOpcode, slba uint64, blocks uint32) wire.SQE {
	sqe := wire.RangeSQE(op, 1, slba, blocks)
	if op != wire.IOWriteZeroes {
		sqe.SGL = q.keyed(int(blocks) * 512)
	}
	return sqe
}

// until waits for a condition that another goroutine brings about.
func (e *env) until(what string, ok func() bool) {
	e.t.Helper()
	for end := time.Now().Add(testWait); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			e.t.Fatalf("it does not happen that %s", what)
		}
	}
}

func verbsAddr(host string) verbs.Addr { return verbs.Addr{Fabric: iwarp.Name, Host: host, Port: "0"} }
