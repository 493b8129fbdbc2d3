package target

import (
	"math/bits"

	"rbd/verbs"
	"rbd/verbs/bufpool"
)

// blockSize is what a buffer of n bytes takes of the pool.
func blockSize(n int) int { return max(bufpool.MinBlock, 1<<bits.Len(uint(n-1))) }

// mayHold tells whether the queue may have another buffer of n bytes: no queue gets
// more than its quota, so that a peer that takes no data can't keep all buffers.
func (q *queue) mayHold(n int) bool { return q.held == 0 || blockSize(n) <= q.quota-q.held }

// waitBuffer gets the slot a buffer, now or later.
func (q *queue) waitBuffer(s *slot) {
	n := int(s.xfer.n)
	s.reserved = blockSize(n)
	q.held += s.reserved
	if q.pool.TryGet(n, &s.data) {
		q.haveBuffer(s)
		return
	}
	if s.state != slotWaitBuffer {
		s.enter(slotWaitBuffer)
	}
	s.inLine = true
	if q.pool.GetOrWait(n, &s.waiter) {
		s.inLine = false
		s.data, s.waiter.Buf = s.waiter.Buf, bufpool.Buf{}
		q.haveBuffer(s)
	}
}

// haveBuffer goes on with a slot that has its buffer.
func (q *queue) haveBuffer(s *slot) {
	s.payload = s.data.Data
	if s.xfer.dir == toHost {
		q.execute(s)
		return
	}
	s.enter(slotFetching)
	s.readSGE[0] = s.data.SGE()
	q.sendWRs = append(q.sendWRs, verbs.SendWR{ID: workID(workRead, s.index), Opcode: verbs.WRRDMARead, Flags: verbs.SendSignaled,
		SGEs: s.readSGE[:], RemoteAddr: s.sqe.SGL.Addr, RKey: s.sqe.SGL.Key})
}

// freeBuffer gives the data buffer back, and goes on with slots that wait for the
// quota.
func (q *queue) freeBuffer(s *slot) {
	if s.data.Data != nil {
		q.pool.Put(&s.data)
	}
	q.held -= s.reserved
	s.reserved = 0
	for q.state != queueDead && q.starved.head != nil && q.mayHold(int(q.starved.head.xfer.n)) {
		q.waitBuffer(q.starved.pop())
	}
}
