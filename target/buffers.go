package target

import (
	"rbd/verbs"
	"rbd/verbs/bufpool"
)

// account is whose share of the buffers a command's data counts against: that of the
// controller for the namespace, so that neither a host that takes no data nor a disk
// that hangs keeps the buffers of all. Admin commands and the Connect count for their
// queue.
func (q *queue) account(s *slot) *bufpool.Account {
	if s.ns == nil {
		return q.own
	}
	nsid := s.ns.nsid
	if nsid >= uint32(len(q.accounts)) {
		q.accounts = append(q.accounts, make([]*bufpool.Account, nsid+1-uint32(len(q.accounts)))...)
	}
	if q.accounts[nsid] == nil {
		q.accounts[nsid] = q.ctrl.accounts.get(q.pool, nsid)
	}
	return q.accounts[nsid]
}

// waitBuffer gets the slot a buffer, now or later.
func (q *queue) waitBuffer(s *slot) {
	if !q.account(s).GetOrWait(int(s.xfer.n), &s.waiter) {
		s.enter(slotWaitBuffer)
		return
	}
	s.data, s.waiter.Buf = s.waiter.Buf, bufpool.Buf{}
	q.haveBuffer(s)
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

// freeBuffer gives the data buffer back.
func (q *queue) freeBuffer(s *slot) {
	if s.data.Data != nil {
		q.pool.Put(&s.data)
	}
}
