package ibv

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"rbd/verbs"
)

// fakeLibrary is rdma-core with one device that does nothing by itself: tests look
// at what was posted, and make completions and events.
type fakeLibrary struct {
	info deviceInfo

	mu        sync.Mutex
	cqs       map[uintptr][]wcRecord
	next      uintptr
	sent      []sendRecord
	sentSGEs  []verbs.SGE
	received  []recvRecord
	takes     int // how many requests the device takes from now on; -1 for all
	refuses   error
	qpErr     bool // the device has put its QPs into ERR by itself
	posts     int
	errorSet  int
	destroyed []string
	events    map[uintptr]int // descriptors of channels: the write ends
	depths    map[uintptr]int // of the CQs that there are
}

func newFake() *fakeLibrary {
	return &fakeLibrary{takes: -1, cqs: map[uintptr][]wcRecord{}, next: 100, events: map[uintptr]int{}, depths: map[uintptr]int{},
		info: deviceInfo{name: "fake0", maxMRSize: 1 << 40, maxQPWR: 1 << 20, maxSGE: 64, maxSGERead: 1, maxCQE: 1 << 20, maxMR: 1000,
			maxQPRdAtom: 255, maxQPInitRdAtom: 16, sendWithInv: true}}
}

func (f *fakeLibrary) handle() uintptr { f.next++; return f.next }

// pipe makes a descriptor that becomes readable when the test writes.
func (f *fakeLibrary) pipe() (uintptr, int, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_NONBLOCK|unix.O_CLOEXEC); err != nil {
		return 0, 0, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.handle()
	f.events[h] = p[1]
	return h, p[0], nil
}

// take reads one event.
func (f *fakeLibrary) take(channel uintptr) error { return unix.EAGAIN }

func (f *fakeLibrary) devices() ([]uintptr, error) { return []uintptr{1}, nil }
func (f *fakeLibrary) queryDevice(uintptr) (deviceInfo, error) {
	_, fd, err := f.pipe()
	_, cmd, _ := f.pipe()
	f.info.asyncFD, f.info.cmdFD = fd, cmd
	return f.info, err
}
func (f *fakeLibrary) portMTU(uintptr, int) int { return 4096 }
func (f *fakeLibrary) asyncEvent(uintptr) (asyncEvent, uint64, error) {
	return 0, 0, unix.EAGAIN
}
func (f *fakeLibrary) allocPD(uintptr) (uintptr, error) { return f.handle(), nil }
func (f *fakeLibrary) deallocPD(uintptr) error          { return nil }
func (f *fakeLibrary) regMR(_ uintptr, _ []byte, _ verbs.Access) (mrInfo, error) {
	return mrInfo{mr: f.handle(), lkey: 7, rkey: 8}, f.refuses
}
func (f *fakeLibrary) deregMR(uintptr) error { return nil }
func (f *fakeLibrary) createChannel(uintptr) (uintptr, int, error) {
	return f.pipe()
}
func (f *fakeLibrary) destroyChannel(uintptr) error { return nil }
func (f *fakeLibrary) createCQ(_ uintptr, depth int, _ uint64, _ uintptr) (uintptr, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.handle()
	f.cqs[h], f.depths[h] = nil, depth
	return h, nil
}
func (f *fakeLibrary) destroyCQ(cq uintptr) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.depths, cq)
	return nil
}
func (f *fakeLibrary) tryQP(_ uintptr, a qpAttr) (int, error) {
	if a.cap.MaxInlineData > 128 || a.cap.MaxSendWR > 8192 {
		return 0, unix.ENOMEM
	}
	return a.cap.MaxInlineData, nil
}

func (f *fakeLibrary) poll(cq uintptr, out []wcRecord) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := copy(out, f.cqs[cq])
	f.cqs[cq] = f.cqs[cq][n:]
	return n
}
func (f *fakeLibrary) reqNotify(uintptr) error     { return nil }
func (f *fakeLibrary) cqEvent(ch uintptr) error    { return f.take(ch) }
func (f *fakeLibrary) setQPError(uintptr) error    { f.errorSet++; return nil }
func (f *fakeLibrary) established(uintptr) error   { return nil }
func (f *fakeLibrary) disconnect(uintptr) error    { return nil }
func (f *fakeLibrary) setHandle(uintptr, uint64)   {}
func (f *fakeLibrary) destroyID(uintptr) error     { return nil }
func (f *fakeLibrary) destroyQP(uintptr)           { f.destroyed = append(f.destroyed, "qp") }
func (f *fakeLibrary) setAFOnly(uintptr) error     { return nil }
func (f *fakeLibrary) listen(uintptr, int) error   { return nil }
func (f *fakeLibrary) setTOS(uintptr, uint8) error { return nil }

func (f *fakeLibrary) postSend(_ uintptr, wrs []sendRecord, sges []verbs.SGE) (int, error) {
	f.posts++
	n := len(wrs)
	if f.takes >= 0 {
		n = min(n, f.takes)
	}
	f.sent = append(f.sent, wrs[:n]...)
	f.sentSGEs = append(f.sentSGEs[:0], sges...)
	if n < len(wrs) {
		return n, f.refuses
	}
	return n, nil
}

func (f *fakeLibrary) postRecv(_ uintptr, wrs []recvRecord, sges []verbs.SGE) (int, error) {
	f.posts++
	f.received = append(f.received, wrs...)
	f.sentSGEs = append(f.sentSGEs[:0], sges...)
	return len(wrs), nil
}

func (f *fakeLibrary) qpState(uintptr) (verbs.QPState, error) {
	if f.qpErr {
		return verbs.QPStateERR, nil
	}
	return verbs.QPStateRTS, nil
}

func (f *fakeLibrary) createEventChannel() (uintptr, int, error) { return f.pipe() }
func (f *fakeLibrary) cmEvent(uintptr, *cmEvent) error           { return unix.EAGAIN }
func (f *fakeLibrary) createID(uintptr, uint64) (uintptr, error) { return f.handle(), nil }
func (f *fakeLibrary) queryID(uintptr) idInfo {
	s, _ := newSockaddr(netip.MustParseAddrPort("192.0.2.1:4420"))
	return idInfo{context: 1, port: 1, src: s, dst: s}
}
func (f *fakeLibrary) bind(uintptr, sockaddr) error { return f.refuses }
func (f *fakeLibrary) resolveAddr(uintptr, sockaddr, sockaddr, int) error {
	return f.refuses
}
func (f *fakeLibrary) resolveRoute(uintptr, int) error { return nil }
func (f *fakeLibrary) createQP(_, _ uintptr, _ qpAttr) (uintptr, uint32, error) {
	return f.handle(), 42, nil
}
func (f *fakeLibrary) connect(uintptr, connRecord) error { return nil }
func (f *fakeLibrary) accept(uintptr, connRecord) error  { return nil }
func (f *fakeLibrary) reject(uintptr, []byte) error      { return nil }

// done makes the device complete a request.
func (f *fakeLibrary) done(c verbs.CQ, id uint64, status verbs.WCStatus, opcode uint8) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := c.(*cq).native
	f.cqs[h] = append(f.cqs[h], wcRecord{id: id, status: uint8(status), opcode: opcode, byteLen: 5})
}

// bench is a connected QP of a fake device.
type bench struct {
	t   testing.TB
	lib *fakeLibrary
	p   *Provider
	c   *cmid
	cq  verbs.CQ
	qp  *qp
	pd  verbs.PD
	wcs []verbs.WC
}

func newBench(t testing.TB, set func(*verbs.QPInitAttr, *verbs.CQAttr, *fakeLibrary)) *bench {
	t.Helper()
	return newBenchOn(t, func(f *fakeLibrary) library { return f }, set)
}

// newBenchOn is newBench with a library made of the fake one.
func newBenchOn(t testing.TB, wrap func(*fakeLibrary) library, set func(*verbs.QPInitAttr, *verbs.CQAttr, *fakeLibrary)) *bench {
	t.Helper()
	b := &bench{t: t, lib: newFake(), p: New(), wcs: make([]verbs.WC, 256)}
	b.p.lib = wrap(b.lib)
	attr := verbs.QPInitAttr{Cap: verbs.QPCap{MaxSendWR: 100, MaxRecvWR: 100, MaxSendSGE: 4, MaxRecvSGE: 4, MaxInlineData: 64}}
	var cqAttr verbs.CQAttr
	cqAttr.Depth = 256
	if set != nil {
		set(&attr, &cqAttr, b.lib)
	}
	b.c = b.p.newCMID()
	b.p.register(b.c.handle, b.c)
	if _, err := b.c.learn(); err != nil {
		t.Fatal(err)
	}
	var err error
	if b.pd, err = b.c.dev.AllocPD(); err != nil {
		t.Fatal(err)
	}
	if b.cq, err = b.c.dev.CreateCQ(cqAttr); err != nil {
		t.Fatal(err)
	}
	attr.SendCQ, attr.RecvCQ = b.cq, b.cq
	q, err := b.c.CreateQP(b.pd, attr)
	if err != nil {
		t.Fatal(err)
	}
	b.qp = q.(*qp)
	t.Cleanup(func() {
		if err := b.c.Destroy(); err != nil && !errors.Is(err, verbs.ErrClosed) {
			t.Error(err)
		}
		if err := b.cq.Destroy(); err != nil {
			t.Error(err)
		}
		if err := b.pd.Dealloc(); err != nil {
			t.Error(err)
		}
		if d := b.c.dev; !d.removed() {
			d.remove()
		}
	})
	return b
}

// connect makes the connection, as the event would.
func (b *bench) connect() *bench {
	b.t.Helper()
	result := make(chan error, 1)
	go func() {
		_, err := b.c.Connect(context.Background(), verbs.ConnParam{InitiatorDepth: 4, ResponderResources: 4})
		result <- err
	}()
	for {
		b.c.mu.Lock()
		connecting := b.c.state == stateConnecting
		b.c.mu.Unlock()
		if connecting {
			break
		}
	}
	b.c.handleEvent(cmEvent{event: cmEstablished, conn: connRecord{initiatorDepth: 2, responderResources: 2}})
	if err := <-result; err != nil {
		b.t.Fatal(err)
	}
	return b
}

// poll takes what completions there are.
func (b *bench) poll() []verbs.WC { return b.wcs[:b.cq.Poll(b.wcs)] }
