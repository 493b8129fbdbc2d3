package ibv

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"rbd/verbs"
	"rbd/verbs/internal/object"
)

// flushTime is how long a device may take to flush a QP that has gone to ERR.
// Then the QP is taken from it, which stops all its work, and the provider
// flushes what is left.
const flushTime = 2 * time.Second

// qp is a queue pair.
type qp struct {
	id             *cmid
	dev            *device
	pd             *pd
	sendCQ, recvCQ *cq
	cap            verbs.QPCap
	native         uintptr
	num            uint32
	key            uint32

	state  atomic.Uint32 // a verbs.QPState; changed with mu held
	sq, rq workQueue
	order  *sendOrder // of an iWARP device
	sigAll bool

	mu        sync.Mutex // of posting and of states; before soft.Mutex of a CQ
	destroyed bool
	cause     error // the first work request that failed
	readDepth int   // RDMA READs that the peer allows at a time
	held      []heldWR
	sends     []sendRecord
	recvs     []recvRecord
	sges      []verbs.SGE
	flushing  *time.Timer
	guarded   uint32 // where sq.head was at the last look

	unmake sync.Once // takes the QP from the device
	ending sync.Once // Destroy
}

func (c *cmid) CreateQP(vpd verbs.PD, attr verbs.QPInitAttr) (verbs.QP, error) {
	q, err := c.newQP(vpd, attr)
	if err != nil {
		return nil, fmt.Errorf("create queue pair: %w", err)
	}
	return q, nil
}

func (c *cmid) newQP(vpd verbs.PD, attr verbs.QPInitAttr) (*qp, error) {
	dom, _ := vpd.(*pd)
	send, _ := attr.SendCQ.(*cq)
	recv, _ := attr.RecvCQ.(*cq)
	if dom == nil || send == nil || recv == nil || dom.dev != c.dev || send.dev != c.dev || recv.dev != c.dev {
		return nil, fmt.Errorf("protection domain or completion queue is not of device %s: %w", c.dev.name, verbs.ErrInvalid)
	}
	lim := attr.Cap
	lim.MaxSendSGE, lim.MaxRecvSGE = max(lim.MaxSendSGE, 0), max(lim.MaxRecvSGE, 0)
	if attr.Cap.MaxSendSGE < 0 || attr.Cap.MaxRecvSGE < 0 || !c.dev.fits(lim) {
		return nil, fmt.Errorf("sizes %+v, the device has %+v: %w", attr.Cap, c.dev.attr, verbs.ErrInvalid)
	}
	lim.MaxSendSGE, lim.MaxRecvSGE = max(lim.MaxSendSGE, 1), max(lim.MaxRecvSGE, 1)
	q := &qp{id: c, dev: c.dev, pd: dom, sendCQ: send, recvCQ: recv, cap: lim,
		sq: newWorkQueue(max(lim.MaxSendWR, 1)), rq: newWorkQueue(max(lim.MaxRecvWR, 1))}
	if q.sigAll = attr.SQSigAll; c.dev.iwarp {
		q.order = newSendOrder(len(q.sq.ring))
	}
	q.sq.max, q.rq.max = uint32(lim.MaxSendWR), uint32(lim.MaxRecvWR)
	batch := postBatch
	q.sends, q.recvs = make([]sendRecord, 0, batch), make([]recvRecord, 0, batch)
	q.sges = make([]verbs.SGE, 0, batch*max(lim.MaxSendSGE, lim.MaxRecvSGE))
	q.state.Store(uint32(verbs.QPStateInit))
	if err := q.use(); err != nil {
		return nil, err
	}
	if err := q.create(); err != nil {
		q.unuse()
		return nil, err
	}
	return q, nil
}

func (d *device) fits(l verbs.QPCap) bool {
	a := &d.attr
	return l.MaxSendWR >= 0 && l.MaxSendWR <= a.MaxQPWR && l.MaxRecvWR >= 0 && l.MaxRecvWR <= a.MaxQPWR &&
		l.MaxSendSGE <= a.MaxSGE && l.MaxRecvSGE <= a.MaxSGE && l.MaxInlineData >= 0 && l.MaxInlineData <= a.MaxInline
}

// use counts the QP at its domain and queues.
func (q *qp) use() error {
	for i, u := range q.parents() {
		if !u.Add() {
			for _, u := range q.parents()[:i] {
				u.Remove()
			}
			return fmt.Errorf("protection domain or completion queue: %w", verbs.ErrClosed)
		}
	}
	return nil
}

func (q *qp) unuse() {
	for _, u := range q.parents() {
		u.Remove()
	}
}

func (q *qp) parents() []*object.Users {
	return []*object.Users{&q.pd.users, &q.sendCQ.users, &q.recvCQ.users}
}

// create makes the QP on the CMID, unless that has one already.
func (q *qp) create() error {
	c := q.id
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.state == stateDestroyed:
		return fmt.Errorf("connection: %w", verbs.ErrClosed)
	case c.state != stateIdle || c.qp != nil:
		return fmt.Errorf("connection: it has one, or has ended: %w", verbs.ErrState)
	}
	if err := q.dev.with(q.createNative); err != nil {
		return q.dev.explain("queue pair", err)
	}
	c.qp = q
	return nil
}

// createNative makes the QP at the device, and puts it into the device's table: a
// removal, which is kept out meanwhile, finds both or neither.
func (q *qp) createNative() (err error) {
	if err := q.dev.addQP(q); err != nil {
		return err
	}
	attr := qpAttr{sendCQ: q.sendCQ.native, recvCQ: q.recvCQ.native, handle: uint64(q.key), cap: q.cap, sigAll: q.sigAll}
	attr.cap.MaxSendWR, attr.cap.MaxRecvWR = max(attr.cap.MaxSendWR, 1), max(attr.cap.MaxRecvWR, 1)
	if q.native, q.num, err = q.dev.lib.createQP(q.id.id, q.pd.native, attr); err != nil {
		q.dev.removeQP(q)
	}
	return err
}

func (q *qp) Num() uint32          { return q.num }
func (q *qp) State() verbs.QPState { return verbs.QPState(q.state.Load()) }

// allowReads sets how many RDMA READs may be outstanding; of those asked for, the
// peer may allow fewer.
func (q *qp) allowReads(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.readDepth = n
}

// established moves the QP to RTS: librdmacm has done so with the device's.
func (q *qp) established() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.State() == verbs.QPStateInit {
		q.state.Store(uint32(verbs.QPStateRTS))
	}
}

func (q *qp) Modify(to verbs.QPState) error {
	if to == verbs.QPStateERR {
		q.mu.Lock()
		destroyed := q.destroyed
		q.mu.Unlock()
		if destroyed {
			return fmt.Errorf("modify queue pair: %w", verbs.ErrClosed)
		}
		q.id.modifiedToError()
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	from := q.State()
	switch {
	case q.destroyed:
		return fmt.Errorf("modify queue pair: %w", verbs.ErrClosed)
	case from == verbs.QPStateRTS && to == verbs.QPStateSQD:
		q.state.Store(uint32(to))
		return nil
	case from == verbs.QPStateSQD && to == verbs.QPStateRTS:
		q.state.Store(uint32(to))
		q.release()
		return nil
	}
	return fmt.Errorf("modify queue pair from %v to %v: %w", from, to, verbs.ErrState)
}

// Destroy takes the QP out of the world: first from the completions, then from the
// connection, then from the device, last from the device's table.
func (q *qp) Destroy() error {
	err := fmt.Errorf("destroy queue pair: %w", verbs.ErrClosed)
	q.ending.Do(func() {
		err = nil
		q.mu.Lock()
		q.destroyed = true
		q.state.Store(uint32(verbs.QPStateERR))
		if q.flushing != nil {
			q.flushing.Stop()
		}
		q.mu.Unlock()
		q.sendCQ.drain(func() { q.sq.dead.Store(true) })
		q.recvCQ.drain(func() { q.rq.dead.Store(true) })
		q.id.cut()
		q.unmakeNative()
		q.dev.removeQP(q) // not before: a removal must find it, and wait
		q.unuse()
	})
	return err
}

// unmakeNative takes the QP from the device: it does no more work of it then.
func (q *qp) unmakeNative() {
	q.unmake.Do(q.id.destroyQP)
}
