package iwarp

import (
	"rbd/verbs"
	"rbd/verbs/iwarp/internal/frame"
)

// taggedState is the RDMA WRITE or Read Response that is being received.
type taggedState struct {
	taggedOpen bool // more segments follow
	taggedOp   frame.Opcode
	taggedSTag uint32
	taggedTO   uint64 // where the next segment goes

	writeSGE      [1]verbs.SGE
	writeCur      sgeCursor
	readCur       sgeCursor
	finishWrite   func() *fault
	finishReading func() *fault
}

func (s *taggedState) init(x *receiver) {
	s.finishWrite = func() *fault { return nil }
	s.finishReading = x.readPlaced
}

func (x *receiver) beginTagged(b []byte) *fault {
	h, _ := frame.ParseTagged(b)
	if x.taggedOpen {
		switch {
		case h.Op != x.taggedOp:
			return x.fault(frame.TermOpcode, "%s within %s", h.Op, x.taggedOp)
		case h.STag != x.taggedSTag:
			return x.fault(frame.TermTaggedSTag, "STag changed within a message")
		case h.TO != x.taggedTO:
			return x.fault(frame.TermTaggedBounds, "TO jumped within a message")
		}
	}
	first := !x.taggedOpen
	x.taggedOpen, x.taggedOp, x.taggedSTag, x.taggedTO = !h.Last, h.Op, h.STag, h.TO+uint64(h.Payload)
	if h.Op == frame.OpReadResponse {
		return x.beginResponse(h, first)
	}
	if h.Payload > 0 {
		if _, _, e := x.q.dev.keys.check(x.q.pd, h.STag, h.TO, uint64(h.Payload), verbs.AccessRemoteWrite); e != accessOK {
			return x.fault(taggedCodes[e], "RDMA WRITE: %s", e)
		}
	}
	x.writeSGE[0] = verbs.SGE{Addr: h.TO, Length: uint32(h.Payload), LKey: h.STag}
	x.writeCur = sgeCursor{sges: x.writeSGE[:]}
	x.dst, x.right, x.finish = &x.writeCur, verbs.AccessRemoteWrite, x.finishWrite
	return nil
}

// beginResponse checks a Read Response against the oldest read outstanding.
func (x *receiver) beginResponse(h frame.Tagged, first bool) *fault {
	q := x.q
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.orq.count() == 0 {
		return x.fault(frame.TermOpcode, "Read Response without a request")
	}
	r := q.orq.at(q.orq.head)
	left := r.length - r.placed
	switch {
	case h.STag != r.stag:
		return x.fault(frame.TermTaggedSTag, "Read Response with another STag")
	case h.TO != uint64(r.placed) || uint64(h.Payload) > uint64(left) || h.Last != (uint32(h.Payload) == left):
		return x.fault(frame.TermTaggedBounds, "Read Response of %d bytes at %d for a read of %d, last=%t", h.Payload, h.TO, r.length, h.Last)
	}
	if first {
		x.readCur = sgeCursor{sges: q.sq.at(r.sq).wr.SGEs}
	}
	x.dst, x.right, x.finish = &x.readCur, verbs.AccessLocalWrite, x.finishReading
	return nil
}

// readPlaced accounts for a segment of a Read Response.
func (x *receiver) readPlaced() *fault {
	q := x.q
	q.mu.Lock()
	defer q.mu.Unlock()
	r := q.orq.at(q.orq.head)
	r.placed += uint32(x.payload)
	if r.placed == r.length {
		q.sq.at(r.sq).done = true
		q.orq.head++
		q.retire()
	}
	return nil
}

// failRead gives the read in progress its status.
func (x *receiver) failRead(s verbs.WCStatus) {
	q := x.q
	q.mu.Lock()
	q.sq.at(q.orq.at(q.orq.head).sq).status = s
	q.mu.Unlock()
}
