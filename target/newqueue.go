package target

import (
	"errors"
	"fmt"

	"rbd/verbs"
	"rbd/verbs/bufpool"
)

// slotsPerCommand: a host may send its next command when it sees an answer, before
// the completion of that answer frees the slot.
const slotsPerCommand = 2

// sendsPerSlot: an RDMA READ, or an RDMA WRITE and a SEND, are outstanding for a
// slot.
const sendsPerSlot = 2

// probeSends: an RDMA READ that asks for nothing but an answer.
const probeSends = 1

// newQueue makes a queue for depth commands. attach gives it its QP.
func newQueue(t *Target, dev *deviceResources, depth int) (*queue, error) {
	slots := depth * slotsPerCommand
	mem, err := newQueueMemory(dev.pd, depth, slots, t.cfg.InCapsuleBytes)
	if err != nil {
		return nil, err
	}
	q := &queue{t: t, pool: dev.pool, own: dev.pool.Account(), mem: mem, slots: make([]slot, slots), early: make([]capsule, 0, depth),
		recvWRs: make([]verbs.RecvWR, 0, depth), sendWRs: make([]verbs.SendWR, 0, slots*sendsPerSlot+probeSends),
		spare: make([]verbs.WC, 0, cqDepth(depth)), drained: make(chan struct{}), quiet: make(chan struct{})}
	q.inbox.wcs = make([]verbs.WC, 0, cqDepth(depth))
	for i := range q.slots {
		s := &q.slots[i]
		s.q, s.index = q, uint32(i)
		s.waiter.Ready = func(*bufpool.Waiter) { q.post(s) }
		s.next, q.free = q.free, s
	}
	return q, nil
}

// cqDepth is how many completions a queue for depth commands may have at once.
func cqDepth(depth int) int { return depth + maxSends(depth) }

// maxSends is how much work a queue for depth commands may have posted on its send queue.
func maxSends(depth int) int { return depth*slotsPerCommand*sendsPerSlot + probeSends }

// attach makes the queue's CQ and QP on a connection, and posts the receives.
func (q *queue) attach(id verbs.CMID, pd verbs.PD) (verbs.CQ, error) {
	depth := len(q.mem.recvs)
	q.noInval = !id.Device().Attr().SendWithInv
	cq, err := id.Device().CreateCQ(verbs.CQAttr{Depth: cqDepth(depth), Handler: q.complete})
	if err != nil {
		return nil, fmt.Errorf("make a completion queue: %w", err)
	}
	q.qp, err = id.CreateQP(pd, verbs.QPInitAttr{SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{
		MaxSendWR: maxSends(depth), MaxRecvWR: depth, MaxSendSGE: 1, MaxRecvSGE: 1}})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make a queue pair: %w", err), cq.Destroy())
	}
	wrs := q.recvWRs
	for i := range depth {
		wrs = append(wrs, q.mem.recvWR(uint32(i)))
	}
	if err := q.qp.PostRecv(wrs); err != nil {
		return nil, errors.Join(err, q.qp.Destroy(), cq.Destroy())
	}
	return cq, nil
}
