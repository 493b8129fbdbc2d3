package perf

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"

	"rbd/verbs"
)

// pollBatch is how many completions a poller takes at once.
const pollBatch = 64

// endpoint is one end of a test: the connection and what was made for it.
type endpoint struct {
	cm  verbs.CMID
	pd  verbs.PD
	mem []byte
	mr  verbs.MR
	cq  verbs.CQ
	qp  verbs.QP

	stopPoll atomic.Bool
	polled   chan struct{} // closed when the poller has ended; nil without one
}

// needs are what an endpoint is made of.
type needs struct {
	op     Op
	size   int // of a message
	access verbs.Access
	sends  int // requests in the send queue
	recvs  int // and in the receive queue
	inline int
	poll   bool
	handle func([]verbs.WC)
}

// open makes the endpoint on cm, which stays the caller's if that fails. The
// handler is called from now on, with completions of one batch at a time.
func (e *endpoint) open(cm verbs.CMID, n *needs) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, e.free())
		}
	}()
	if e.pd, err = cm.Device().AllocPD(); err != nil {
		return err
	}
	length := n.size
	if n.op.Latency() {
		length = recvOffset(n.size) + n.size
	}
	if e.mem, err = verbs.AllocMemory(length); err != nil {
		return err
	}
	// Pages are there before time is taken, and none is the kernel's page of zeros.
	for i := range e.mem {
		e.mem[i] = byte(i>>8) ^ byte(i)
	}
	if n.op == WriteLat {
		e.mem[recvOffset(n.size)+n.size-1] = 0
	}
	// What was allocated is whole pages; the peer gets no more than it needs.
	if e.mr, err = e.pd.RegMR(e.mem[:length], n.access); err != nil {
		return err
	}
	attr := verbs.CQAttr{Depth: n.sends + n.recvs}
	if !n.poll {
		attr.Handler = n.handle
	}
	if e.cq, err = cm.Device().CreateCQ(attr); err != nil {
		return err
	}
	e.qp, err = cm.CreateQP(e.pd, verbs.QPInitAttr{SendCQ: e.cq, RecvCQ: e.cq,
		Cap: verbs.QPCap{MaxSendWR: n.sends, MaxRecvWR: n.recvs, MaxInlineData: n.inline}})
	if err != nil {
		return err
	}
	e.cm = cm
	if n.poll {
		e.polled = make(chan struct{})
		go e.poll(n.handle)
	}
	return nil
}

// poll is the poller's goroutine.
func (e *endpoint) poll(handle func([]verbs.WC)) {
	defer close(e.polled)
	wcs := make([]verbs.WC, pollBatch)
	var pause idle
	for !e.stopPoll.Load() {
		if n := e.cq.Poll(wcs); n > 0 {
			pause.found()
			handle(wcs[:n])
		} else {
			pause.wait()
		}
	}
}

// close ends the connection, if there is one, and frees everything. After it no
// handler runs.
func (e *endpoint) close() error {
	if e.cm == nil {
		return nil
	}
	_ = e.cm.Disconnect() // an error says that there is no connection
	err := e.cm.Destroy()
	e.cm = nil
	return errors.Join(err, e.free())
}

// free frees all but the connection; its queue pair is gone, or was never made.
func (e *endpoint) free() error {
	if e.polled != nil {
		e.stopPoll.Store(true)
		<-e.polled
		e.polled = nil
	}
	var errs []error
	if e.cq != nil {
		errs = append(errs, e.cq.Destroy())
	}
	if e.mr != nil {
		errs = append(errs, e.mr.Dereg())
	}
	if e.pd != nil {
		errs = append(errs, e.pd.Dealloc())
	}
	if e.mem != nil {
		errs = append(errs, verbs.FreeMemory(e.mem))
	}
	e.cq, e.mr, e.pd, e.mem = nil, nil, nil, nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("free the test's resources: %w", err)
	}
	return nil
}

// recvOffset is where a latency test's memory receives: behind what is sent, on
// a page of its own.
func recvOffset(size int) int {
	page := os.Getpagesize()
	return (size + page - 1) / page * page
}

// sge is n bytes of the memory at off.
func (e *endpoint) sge(off, n int) verbs.SGE {
	return verbs.SGE{Addr: e.mr.Addr() + uint64(off), Length: uint32(n), LKey: e.mr.LKey()}
}

// postRecv posts n receives like wr.
func (e *endpoint) postRecv(wr []verbs.RecvWR, n int) error {
	for range n {
		if err := e.qp.PostRecv(wr); err != nil {
			return err
		}
	}
	return nil
}

// wcError is what a completion says went wrong, or nil. Flushed requests say
// nothing: what flushed them is told elsewhere.
func wcError(wc *verbs.WC, op Op) error {
	switch wc.Status {
	case verbs.WCSuccess, verbs.WCWRFlushErr:
		return nil
	}
	if wc.VendorErr != 0 {
		return fmt.Errorf("a request of %s failed: %s (vendor error %#x)", op, wc.Status, wc.VendorErr)
	}
	return fmt.Errorf("a request of %s failed: %s", op, wc.Status)
}
