package initiator

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rbd/verbs"
	"rbd/wire"
)

// fakeConn is one connection without a peer: the test sees the capsules that are
// sent, and makes the completions itself, on its own goroutine.
type fakeConn struct {
	verbs.CMID
	verbs.QP

	mu    sync.Mutex
	sent  []wire.SQE // capsules in the order of posting
	data  [][]byte   // what the SENDs gathered behind the SQE, if keepData
	pend  []verbs.WC // completions of sends that the provider keeps back
	recvs []verbs.RecvWR
	posts int // calls of PostSend
	asked verbs.ConnParam

	keepData bool
	lag      bool // keep completions of sends back until release
	postErr  error
	gone     chan struct{}
	cut      bool

	sendCQ, recvCQ *fakeCQ
	regions        []*fakeMR
	batch          []verbs.WC
	attr           verbs.DeviceAttr
	keys           uint32
}

type fakeCQ struct {
	verbs.CQ
	attr  verbs.CQAttr
	mu    sync.Mutex
	wcs   []verbs.WC
	armed bool
	event chan struct{}
}

type fakeMR struct {
	conn *fakeConn
	mem  []byte
	key  uint32
}

func newFakeConn() *fakeConn {
	return &fakeConn{
		gone: make(chan struct{}),
		attr: verbs.DeviceAttr{MaxQPWR: 4096, MaxCQE: 4096, MaxSGE: 4, MaxQPRdAtom: 128},
	}
}

// Device, PD and MR.

func (f *fakeConn) Device() verbs.Device { return fakeDevice{f} }
func (f *fakeConn) RegMR(m []byte, _ verbs.Access) (verbs.MR, error) {
	f.keys++
	mr := &fakeMR{f, m, 0x1000 + f.keys}
	f.regions = append(f.regions, mr)
	return mr, nil
}

type fakeDevice struct{ f *fakeConn }

func (d fakeDevice) Name() string               { return "fake0" }
func (d fakeDevice) Attr() verbs.DeviceAttr     { return d.f.attr }
func (d fakeDevice) AllocPD() (verbs.PD, error) { return fakePD{d.f}, nil }
func (d fakeDevice) CreateCQ(a verbs.CQAttr) (verbs.CQ, error) {
	cq := &fakeCQ{attr: a, event: make(chan struct{}, 1), wcs: make([]verbs.WC, 0, a.Depth)}
	if a.Handler != nil {
		d.f.recvCQ = cq
	} else {
		d.f.sendCQ = cq
	}
	return cq, nil
}

type fakePD struct{ *fakeConn }

func (p fakePD) Dealloc() error { return nil }

func (m *fakeMR) Addr() uint64 { return verbs.AddrOf(m.mem) }
func (m *fakeMR) Len() int     { return len(m.mem) }
func (m *fakeMR) LKey() uint32 { return m.key }
func (m *fakeMR) RKey() uint32 { return m.key | 0x80000000 }
func (m *fakeMR) Dereg() error { return nil }

// bytes is the memory that an SGE names; the test fails if it names none.
func (f *fakeConn) bytes(addr uint64, n uint32, key uint32) []byte {
	for _, m := range f.regions {
		if off := addr - m.Addr(); (m.LKey() == key || m.RKey() == key) && off <= uint64(len(m.mem)) && uint64(n) <= uint64(len(m.mem))-off {
			return m.mem[off : off+uint64(n)]
		}
	}
	panic("SGE outside of all regions")
}

// CQ.

func (c *fakeCQ) Poll(wcs []verbs.WC) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := copy(wcs, c.wcs)
	c.wcs = c.wcs[:copy(c.wcs, c.wcs[n:])]
	return n
}

func (c *fakeCQ) add(wc verbs.WC) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wcs = append(c.wcs, wc)
	if c.armed {
		c.armed = false
		select {
		case c.event <- struct{}{}:
		default:
		}
	}
}

func (c *fakeCQ) ReqNotify() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = true
	return nil
}

func (c *fakeCQ) Wait(ctx context.Context) error {
	select {
	case <-c.event:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *fakeCQ) Destroy() error { return nil }

// CMID and QP.

func (f *fakeConn) CreateQP(verbs.PD, verbs.QPInitAttr) (verbs.QP, error) { return fakeQP{f}, nil }
func (f *fakeConn) Connect(_ context.Context, p verbs.ConnParam) (verbs.ConnParam, error) {
	f.asked = p
	return verbs.ConnParam{}, nil
}
func (f *fakeConn) Disconnect() error             { return nil }
func (f *fakeConn) Disconnected() <-chan struct{} { return f.gone }
func (f *fakeConn) Err() error                    { return verbs.ErrDisconnected }
func (f *fakeConn) LocalAddr() net.Addr           { return nil }

// fakeQP has its own Destroy.
type fakeQP struct{ *fakeConn }

func (f *fakeConn) Destroy() error { return nil }

func (q fakeQP) Destroy() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.cut = true
	return nil
}

func (q fakeQP) Num() uint32                { return 1 }
func (q fakeQP) State() verbs.QPState       { return verbs.QPStateRTS }
func (q fakeQP) Modify(verbs.QPState) error { return nil }

func (q fakeQP) PostRecv(wrs []verbs.RecvWR) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.recvs = append(q.recvs, wrs...)
	return nil
}

func (q fakeQP) PostSend(wrs []verbs.SendWR) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.postErr != nil {
		return q.postErr
	}
	q.posts++
	for i := range wrs {
		w := &wrs[i]
		first := q.bytes(w.SGEs[0].Addr, w.SGEs[0].Length, w.SGEs[0].LKey)
		var s wire.SQE
		if err := s.Parse(first[:wire.SQESize]); err != nil {
			return err
		}
		q.sent = append(q.sent, s)
		if q.keepData {
			data := append([]byte(nil), first[wire.SQESize:]...)
			for _, g := range w.SGEs[1:] {
				data = append(data, q.bytes(g.Addr, g.Length, g.LKey)...)
			}
			q.data = append(q.data, data)
		}
		wc := verbs.WC{ID: w.ID, Opcode: verbs.WCSend}
		if q.lag {
			q.pend = append(q.pend, wc)
		} else {
			q.sendCQ.add(wc)
		}
	}
	return nil
}

// release lets the completions of sends go that were kept back.
func (f *fakeConn) release() {
	f.mu.Lock()
	pend := f.pend
	f.pend = nil
	f.mu.Unlock()
	for _, wc := range pend {
		f.sendCQ.add(wc)
	}
}

// take returns the capsules that were sent since the last take.
func (f *fakeConn) take() []wire.SQE {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.sent
	f.sent = nil
	return s
}

// answer delivers response capsules in one batch.
func (f *fakeConn) answer(cqes ...wire.CQE) {
	f.mu.Lock()
	f.batch = f.batch[:0]
	for i := range cqes {
		if len(f.recvs) == 0 {
			panic("response without a receive posted")
		}
		r := f.recvs[0]
		f.recvs = f.recvs[:copy(f.recvs, f.recvs[1:])]
		cqes[i].Put(f.bytes(r.SGEs[0].Addr, wire.CQESize, r.SGEs[0].LKey))
		f.batch = append(f.batch, verbs.WC{ID: r.ID, Opcode: verbs.WCRecv, ByteLen: wire.CQESize})
	}
	f.mu.Unlock()
	f.recvCQ.attr.Handler(f.batch)
}

// fixture is a queue on a fakeConn with one namespace of 1 MiB and nsid 1.
type fixture struct {
	*fakeConn
	q    *Queue
	tick atomic.Uint32
	ns   namespaceTable
	fail chan error
	buf  []byte
	mr   verbs.MR
	over sync.Once
	// params are those of the connection.
	params connParams
}

func newFixture(t testing.TB, slots int, inCapsule uint64) *fixture {
	t.Helper()
	f := &fixture{fakeConn: newFakeConn(), fail: make(chan error, 16)}
	f.q = newQueue(1, slots, queueControl{tick: &f.tick, namespaces: &f.ns, lose: func(*Request) bool { return true }})
	ns := &Namespace{nsid: 1}
	ns.info.Store(&NamespaceInfo{
		NSID: 1, Size: 1 << 20, BlockSize: 512, shift: 9, CanTrim: true, CanWriteZeroes: true,
		deallocateZeroes: true, maxTransfer: 64 << 10, maxTrim: 128 << 10, maxZeroes: 128 << 10,
	})
	f.ns.m.Store(&map[uint32]*Namespace{1: ns})
	mem, err := verbs.AllocMemory(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	f.buf = mem
	f.mr, _ = f.RegMR(mem, dataAccess)
	f.params = connParams{pd: fakePD{f.fakeConn}, lkey: f.mr.LKey(), rkey: f.mr.RKey(), cntlid: 1, slots: slots, inCapsule: inCapsule, fail: func(err error) {
		select {
		case f.fail <- err:
		default:
		}
	}}
	if err := f.q.open(context.Background(), f.fakeConn, f.params); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.end(t, ErrClosed)
		if err := verbs.FreeMemory(mem); err != nil {
			t.Error(err)
		}
	})
	return f
}

// end ends the queue once.
func (f *fixture) end(t testing.TB, err error) {
	f.over.Do(func() {
		f.q.giveUp(err)
		f.q.cut(err)
		if err := f.q.end(err); err != nil {
			t.Error(err)
		}
	})
}

// req is a request with a buffer as long as its range.
func (f *fixture) req(o Owner, op Op, off, n uint64) *Request {
	r := &Request{Op: op, NSID: 1, Offset: off, Length: n, Owner: o}
	if op == OpRead || op == OpWrite {
		r.Buf.Data, r.Buf.Addr = f.buf[off:off+n], f.mr.Addr()+off
		r.Buf.LKey, r.Buf.RKey = f.mr.LKey(), f.mr.RKey()
	}
	return r
}

// ok is the answer of success to a capsule.
func ok(s wire.SQE) wire.CQE { return wire.CQE{CID: s.CID} }

// collector is an owner that keeps what comes back.
type collector struct {
	mu      sync.Mutex
	batches [][]*Request
	done    []*Request
	came    chan struct{}
}

func newCollector() *collector { return &collector{came: make(chan struct{}, 1024)} }

func (c *collector) Complete(batch []*Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.batches = append(c.batches, append([]*Request(nil), batch...))
	c.done = append(c.done, batch...)
	for range batch {
		c.came <- struct{}{}
	}
}

// wait returns when n more requests have come back.
func (c *collector) wait(t testing.TB, n int) {
	t.Helper()
	for range n {
		select {
		case <-c.came:
		case <-time.After(10 * time.Second):
			t.Fatal("requests did not come back")
		}
	}
}

// none fails if a request came back that was not waited for.
func (c *collector) none(t testing.TB) {
	t.Helper()
	select {
	case <-c.came:
		t.Fatal("a request came back too early, or twice")
	default:
	}
}
