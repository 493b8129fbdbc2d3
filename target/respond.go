package target

import (
	"rbd/verbs"
	"rbd/wire"
)

// finish answers a command whose result is nothing but its status.
func (q *queue) finish(s *slot) { q.respond(s, 0) }

// answer answers a request that a controller has executed.
func (q *queue) answer(s *slot) {
	s.status = s.request.status
	if s.sqe.Opcode == wire.OpcodeFabrics && s.sqe.FabricsType() == wire.FabricsConnect {
		q.connectDone(s)
	}
	q.respond(s, s.request.result)
}

// respond queues the answer of a command, behind its data if it has some for the
// host. The command is over for the host when it sees the answer: before, its
// receive buffer is posted again and its identifier is free.
func (q *queue) respond(s *slot, result uint64) {
	if q.state == queueDead {
		q.release(s)
		return
	}
	if s.ns != nil {
		s.ns.release()
		s.ns = nil
	}
	if !s.status.OK() && q.ctrl != nil {
		s.status = q.ctrl.logError(q.qid, &s.sqe, s.status)
	}
	s.enter(slotResponding)
	if s.status.OK() && s.xfer.dir == toHost {
		s.writeSGE[0] = s.data.SGE()
		q.sendWRs = append(q.sendWRs, verbs.SendWR{ID: workID(workWrite, s.index), Opcode: verbs.WRRDMAWrite,
			SGEs: s.writeSGE[:], RemoteAddr: s.sqe.SGL.Addr, RKey: s.sqe.SGL.Key})
	} else {
		q.freeBuffer(s)
	}
	cqe := wire.CQE{Result: result, SQHD: q.nextHead(), CID: s.sqe.CID, Status: s.status}
	cqe.Put(q.mem.response(s.index))
	s.sendSGE[0] = q.mem.responseSGE(s.index)
	wr := verbs.SendWR{ID: workID(workSend, s.index), Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGEs: s.sendSGE[:]}
	if s.invalidate && !q.noInval {
		wr.Opcode, wr.InvalidateRKey = verbs.WRSendWithInv, s.sqe.SGL.Key
	}
	q.sendWRs = append(q.sendWRs, wr)
	if s.ownsCID {
		q.clearCID(s.sqe.CID)
	}
	q.recvWRs = append(q.recvWRs, q.mem.recvWR(s.recv))
}

// nextHead is the submission queue head pointer of the next answer.
func (q *queue) nextHead() uint16 {
	if q.noFlow {
		return 0xFFFF
	}
	if q.sqSize > 0 {
		q.sqhd = (q.sqhd + 1) % q.sqSize
	}
	return q.sqhd
}
