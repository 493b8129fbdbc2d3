package iwarp

import (
	"rbd/verbs"
	"rbd/verbs/iwarp/internal/frame"
)

// untaggedState is the Send that is being received, and the sequence numbers.
type untaggedState struct {
	sendOpen bool // the receive at rq.head is in use
	sendOp   frame.Opcode
	sendInv  uint32
	sendMO   uint32 // bytes of the message so far
	sendLast bool
	sendMSN  uint32 // the next message's, by queue
	readMSN  uint32
	sendCur  sgeCursor

	finishSending func() *fault
	finishRequest func() *fault
}

func (s *untaggedState) init(x *receiver) {
	s.sendMSN, s.readMSN = 1, 1
	s.finishSending = x.sendPlaced
	s.finishRequest = x.readRequested
}

func (x *receiver) beginUntagged(b []byte) *fault {
	h, _ := frame.ParseUntagged(b)
	if h.QN != h.Op.Queue() {
		return x.fault(frame.TermQueue, "%s on queue %d", h.Op, h.QN)
	}
	if h.Op == frame.OpReadRequest {
		switch {
		case x.payload != 0 || !h.Last:
			return x.fault(frame.TermTooLong, "Read Request with a payload")
		case h.MSN != x.readMSN:
			return x.fault(frame.TermMSN, "Read Request %d, expected %d", h.MSN, x.readMSN)
		case h.MO != 0:
			return x.fault(frame.TermMO, "Read Request at offset %d", h.MO)
		}
		x.finish = x.finishRequest
		return nil
	}
	switch {
	case h.MSN != x.sendMSN:
		return x.fault(frame.TermMSN, "message %d, expected %d", h.MSN, x.sendMSN)
	case h.MO != x.sendMO:
		return x.fault(frame.TermMO, "message offset %d, expected %d", h.MO, x.sendMO)
	case x.sendOpen && (h.Op != x.sendOp || h.InvSTag != x.sendInv):
		return x.fault(frame.TermOpcode, "%s within %s", h.Op, x.sendOp)
	}
	return x.beginSend(h)
}

// beginSend finds the receive for a segment of a Send.
func (x *receiver) beginSend(h frame.Untagged) *fault {
	q := x.q
	q.mu.Lock()
	if q.rq.head == q.rq.tail {
		q.mu.Unlock()
		return x.fault(frame.TermNoBuffer, "no receive posted for message %d", h.MSN)
	}
	w := q.rq.at(q.rq.head)
	q.mu.Unlock()
	if !x.sendOpen {
		x.sendOpen, x.sendOp, x.sendInv = true, h.Op, h.InvSTag
		x.sendCur = sgeCursor{sges: w.sges}
	}
	if uint64(x.sendMO)+uint64(h.Payload) > w.length {
		x.failRecv(verbs.WCLocLenErr)
		return x.fault(frame.TermTooLong, "message of at least %d bytes for a receive of %d", uint64(x.sendMO)+uint64(h.Payload), w.length)
	}
	x.sendLast = h.Last
	x.dst, x.right, x.finish = &x.sendCur, verbs.AccessLocalWrite, x.finishSending
	return nil
}

// sendPlaced accounts for a segment of a Send, and completes the receive after
// the last.
func (x *receiver) sendPlaced() *fault {
	x.sendMO += uint32(x.payload)
	if !x.sendLast {
		return nil
	}
	q := x.q
	wc := verbs.WC{Opcode: verbs.WCRecv, ByteLen: x.sendMO, QPNum: q.num}
	if x.sendOp.Invalidates() {
		if !q.dev.keys.invalidate(q.pd, x.sendInv) {
			return x.fault(frame.TermInvalidate, "STag to invalidate is unknown or not the peer's")
		}
		wc.Flags, wc.InvalidatedRKey = verbs.WCWithInv, x.sendInv
	}
	x.sendOpen, x.sendMO = false, 0
	x.sendMSN++
	q.mu.Lock()
	defer q.mu.Unlock()
	wc.ID = q.rq.at(q.rq.head).id
	q.rq.head++
	if !q.recvCQ.add(&wc) {
		return &fault{cause: errCQOverrun}
	}
	return nil
}

// failRecv gives the receive in progress its status.
func (x *receiver) failRecv(s verbs.WCStatus) {
	q := x.q
	q.mu.Lock()
	q.rq.at(q.rq.head).status = s
	q.mu.Unlock()
}

// readRequested checks a Read Request and queues it to be answered.
func (x *receiver) readRequested() *fault {
	x.readMSN++
	q := x.q
	r, _, _ := frame.ParseReadRequest(x.header[:])
	if r.Length > 0 {
		if _, _, e := q.dev.keys.check(q.pd, r.SrcSTag, r.SrcTO, uint64(r.Length), verbs.AccessRemoteRead); e != accessOK {
			return x.fault(readCodes[e], "RDMA READ: %s", e)
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.irq.full() {
		return x.fault(frame.TermStream, "more RDMA READs than the %d agreed on", len(q.irq.ring))
	}
	*q.irq.at(q.irq.tail) = inRead{sinkSTag: r.SinkSTag, sinkTO: r.SinkTO, length: r.Length, srcSTag: r.SrcSTag, srcTO: r.SrcTO, header: x.header}
	q.irq.tail++
	return nil
}

// terminated handles a Terminate: the request that the peer complains of gets
// its status, all others will be flushed.
func (x *receiver) terminated(b []byte, ulpdu int) (more bool, f *fault) {
	n := frame.LengthSize + ulpdu
	if n > frame.UntaggedSize+frame.MaxTerminate {
		return false, peerFault(frame.TermMPAFrame, nil, "Terminate of %d bytes", ulpdu)
	}
	if len(b) < n {
		return false, nil
	}
	t, ok := frame.ParseTerminate(b[frame.UntaggedSize:n])
	if !ok {
		return false, peerFault(frame.TermMPAFrame, nil, "Terminate of %d bytes", ulpdu)
	}
	e := &remoteError{t}
	return false, &fault{cause: e, told: e}
}
