package ibv

import (
	"fmt"

	"rbd/verbs"
)

// postBatch is how many work requests are handed to the device at a time.
const postBatch = 64

var sendOpcodes = [...]uint16{verbs.WRSend: wrSend, verbs.WRSendWithInv: wrSendWithInv, verbs.WRRDMAWrite: wrRDMAWrite, verbs.WRRDMARead: wrRDMARead}

func (q *qp) PostSend(wrs []verbs.SendWR) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for done := 0; done < len(wrs); {
		n, err := q.postSends(wrs[done:])
		if done += n; err != nil {
			return &verbs.PostError{Op: "post send", BadWR: done, Err: err}
		}
	}
	return nil
}

// postSends hands over the first of the requests, and says how many. The mutex is
// held.
func (q *qp) postSends(wrs []verbs.SendWR) (int, error) {
	switch state := q.State(); {
	case q.destroyed:
		return 0, verbs.ErrClosed
	case state == verbs.QPStateRTS:
	case state == verbs.QPStateSQD, state == verbs.QPStateERR:
		return q.hold(wrs)
	default:
		return 0, fmt.Errorf("queue pair in %v: %w", state, verbs.ErrState)
	}
	q.sends, q.sges = q.sends[:0], q.sges[:0]
	var bad error
	room := q.sq.room()
	for i := range wrs[:min(len(wrs), postBatch)] {
		if bad = q.checkSend(&wrs[i], i < room); bad != nil {
			break
		}
		q.putSend(&wrs[i], i)
	}
	n, err := q.flushSends()
	if err == nil {
		err = bad
	}
	return n, err
}

// checkSend says whether a request may be posted.
func (q *qp) checkSend(wr *verbs.SendWR, room bool) error {
	switch {
	case int(wr.Opcode) >= len(sendOpcodes):
		return fmt.Errorf("opcode %v: %w", wr.Opcode, verbs.ErrInvalid)
	case wr.Opcode == verbs.WRSendWithInv && !q.dev.attr.SendWithInv:
		return fmt.Errorf("opcode %v: %w", wr.Opcode, verbs.ErrNotSupported)
	case wr.Opcode == verbs.WRRDMARead:
		if n := dataSGEs(wr.SGEs); n > q.dev.attr.MaxSGERead {
			return fmt.Errorf("an RDMA READ of %d SGEs, the limit is %d: %w", n, q.dev.attr.MaxSGERead, verbs.ErrInvalid)
		}
		if wr.Flags&verbs.SendInline != 0 {
			return fmt.Errorf("an RDMA READ with inline data: %w", verbs.ErrInvalid)
		}
		if q.readDepth == 0 && q.State() != verbs.QPStateERR {
			return fmt.Errorf("the connection was made for no RDMA READ: %w", verbs.ErrInvalid)
		}
	}
	if len(wr.SGEs) > q.cap.MaxSendSGE {
		return fmt.Errorf("%d SGEs, the limit is %d: %w", len(wr.SGEs), q.cap.MaxSendSGE, verbs.ErrInvalid)
	}
	if wr.Flags&verbs.SendInline != 0 {
		if sum := dataBytes(wr.SGEs); sum > uint64(q.cap.MaxInlineData) {
			return fmt.Errorf("%d bytes of inline data, the limit is %d: %w", sum, q.cap.MaxInlineData, verbs.ErrInvalid)
		}
	}
	if !room {
		return verbs.ErrNoMemory
	}
	return nil
}

// dataSGEs counts the SGEs that are not empty.
func dataSGEs(sges []verbs.SGE) (n int) {
	for i := range sges {
		if sges[i].Length > 0 {
			n++
		}
	}
	return n
}

// putSend makes the record of a request that comes i places behind the tail.
func (q *qp) putSend(wr *verbs.SendWR, i int) {
	n, flags := q.sq.put(i, wr.ID), wr.Flags
	if q.order != nil {
		flags = q.order.put(n, wr, q.sigAll)
	}
	r := sendRecord{id: workID(q.key, false, n), remoteAddr: wr.RemoteAddr, rkey: wr.RKey,
		sge: uint32(len(q.sges)), opcode: sendOpcodes[wr.Opcode], flags: uint16(flags)}
	if wr.Opcode == verbs.WRSendWithInv {
		r.rkey = wr.InvalidateRKey
	}
	if r.sges = q.putSGEs(wr.SGEs); r.sges == 0 && q.order != nil && wr.Opcode == verbs.WRRDMARead {
		// Without one, siw reads what the SGE names that is left of an older request.
		q.sges, r.sges = append(q.sges, verbs.SGE{}), 1
	}
	q.sends = append(q.sends, r)
}

// putSGEs leaves empty SGEs out: to some devices the length 0 means 2 GiB.
func (q *qp) putSGEs(sges []verbs.SGE) (n uint32) {
	for _, s := range sges {
		if s.Length > 0 {
			q.sges = append(q.sges, s)
			n++
		}
	}
	return n
}

// flushSends posts the records. What the device refuses because the QP has failed
// meanwhile is held, to be flushed.
func (q *qp) flushSends() (int, error) {
	n := len(q.sends)
	if n == 0 {
		return 0, nil
	}
	old := q.sq.tail.Load()
	q.sq.tail.Store(old + uint32(n)) // before a completion can come
	taken, err := q.dev.lib.postSend(q.native, q.sends, q.sges)
	q.sq.given = old + uint32(taken)
	if err == nil {
		return n, nil
	}
	if q.hasFailed() {
		return n, nil
	}
	q.sq.tail.Store(q.sq.given)
	return taken, wrap("device "+q.dev.name, err)
}

// hasFailed says, after the device refused a post, whether it did so as the QP is
// in ERR. Then it is so here too. The mutex is held.
func (q *qp) hasFailed() bool {
	if state, err := q.dev.lib.qpState(q.native); err == nil && state != verbs.QPStateERR && !q.dev.removed() {
		return false
	}
	q.id.failLater(errQPError)
	q.enterERR()
	return true
}

func (q *qp) PostRecv(wrs []verbs.RecvWR) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for done := 0; done < len(wrs); {
		n, err := q.postRecvs(wrs[done:])
		if done += n; err != nil {
			return &verbs.PostError{Op: "post recv", BadWR: done, Err: err}
		}
	}
	return nil
}

func (q *qp) postRecvs(wrs []verbs.RecvWR) (int, error) {
	if q.destroyed {
		return 0, verbs.ErrClosed
	}
	failed := q.State() == verbs.QPStateERR
	q.recvs, q.sges = q.recvs[:0], q.sges[:0]
	var bad error
	room := q.rq.room()
	for i := range wrs[:min(len(wrs), postBatch)] {
		if len(wrs[i].SGEs) > q.cap.MaxRecvSGE {
			bad = fmt.Errorf("%d SGEs, the limit is %d: %w", len(wrs[i].SGEs), q.cap.MaxRecvSGE, verbs.ErrInvalid)
			break
		}
		if i >= room {
			bad = verbs.ErrNoMemory
			break
		}
		r := recvRecord{id: workID(q.key, true, q.rq.put(i, wrs[i].ID)), sge: uint32(len(q.sges))}
		if r.sges = q.putSGEs(wrs[i].SGEs); r.sges == 0 && q.dev.iwarp {
			q.sges, r.sges = append(q.sges, verbs.SGE{}), 1 // siw takes no receive without SGE
		}
		q.recvs = append(q.recvs, r)
	}
	n := len(q.recvs)
	if n == 0 {
		return 0, bad
	}
	old := q.rq.tail.Load()
	q.rq.tail.Store(old + uint32(n))
	if failed {
		q.flushRest()
		return n, bad
	}
	taken, err := q.dev.lib.postRecv(q.native, q.recvs, q.sges)
	q.rq.given = old + uint32(taken)
	if err == nil || q.hasFailed() {
		return n, bad
	}
	q.rq.tail.Store(q.rq.given)
	return taken, wrap("device "+q.dev.name, err)
}
