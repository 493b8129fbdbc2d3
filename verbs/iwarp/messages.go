package iwarp

import (
	"fmt"
	"math/rand/v2"

	"rbd/verbs"
	"rbd/verbs/iwarp/internal/frame"
)

// fill builds a batch from the send queue up to sqTail and the inbound reads up
// to irqTail. A request that fails does so alone: the batch ends before it, and
// it is the fault only of a batch that would be empty.
func (q *qp) fill(sqTail, irqTail uint32) *fault {
	t := &q.tx
	if t.fault != nil {
		return t.fault
	}
	for {
		var more bool
		var f *fault
		switch q.pick(sqTail, irqTail) {
		case fromSends:
			more, f = q.sendSegment(q.sq.at(q.sq.next))
		case fromReads:
			more, f = q.responseSegment(q.irq.at(t.irqNext))
		}
		switch {
		case f != nil && len(t.marks) > 0:
			t.fault = f
			t.rollBack()
			t.seal()
			return nil
		case f != nil:
			return f
		case !more:
			t.seal()
			return nil
		}
	}
}

type source uint8

const (
	fromNone source = iota
	fromSends
	fromReads
)

// pick chooses where the next FPDU comes from. Segments of a tagged message may
// be mixed with those of an untagged one, but not with another tagged message:
// then the message that has begun goes on. Otherwise both take turns.
func (q *qp) pick(sqTail, irqTail uint32) source {
	t := &q.tx
	sends := t.sqOpen || q.sq.next != sqTail && !q.mustWait(q.sq.at(q.sq.next))
	reads := t.irqNext != irqTail
	switch {
	case sends && reads:
		if q.sq.at(q.sq.next).wr.Opcode == verbs.WRRDMAWrite {
			if t.sqOpen {
				return fromSends
			}
			if t.irqOff > 0 {
				return fromReads
			}
		}
		if t.irqTurn = !t.irqTurn; t.irqTurn {
			return fromReads
		}
		return fromSends
	case sends:
		return fromSends
	case reads:
		return fromReads
	}
	return fromNone
}

func (q *qp) mustWait(w *sendWQE) bool {
	if w.wr.Flags&verbs.SendFence == 0 && w.wr.Opcode != verbs.WRRDMARead {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.blocked(w)
}

// sendSegment adds the next FPDU of the request at sq.next. more is false when
// the batch is full.
func (q *qp) sendSegment(w *sendWQE) (more bool, f *fault) {
	t := &q.tx
	if !t.sqOpen {
		if f := q.check(w); f != nil {
			return false, f
		}
	}
	if w.wr.Opcode == verbs.WRRDMARead {
		return q.readRequest(w), nil
	}
	header := frame.UntaggedSize
	if w.wr.Opcode == verbs.WRRDMAWrite {
		header = frame.TaggedSize
	}
	left := w.length - t.sqOff
	n, more := t.fit(header, left)
	if !more {
		return false, nil
	}
	if !t.sqOpen {
		t.sqOpen, t.sqCur = true, sgeCursor{sges: w.wr.SGEs}
		if w.wr.Opcode != verbs.WRRDMAWrite {
			w.msn = t.sendMSN
			t.sendMSN++
		}
	}
	start, last := len(t.arena), uint64(n) == left
	if w.wr.Opcode == verbs.WRRDMAWrite {
		t.arena = frame.Tagged{Op: frame.OpWrite, Last: last, STag: w.wr.RKey, TO: w.wr.RemoteAddr + t.sqOff, Payload: n}.Append(t.arena)
	} else {
		op, inv := sendOpcode(&w.wr)
		t.arena = frame.Untagged{Op: op, Last: last, InvSTag: inv, QN: frame.QueueSend, MSN: w.msn, MO: uint32(t.sqOff), Payload: n}.Append(t.arena)
	}
	if w.inline() {
		t.arena = append(t.arena, w.data[t.sqOff:t.sqOff+uint64(n)]...)
	} else if e := q.gather(n); e != accessOK {
		return false, q.localProtection(w, e)
	}
	t.end(start, header, n)
	t.sqOff += uint64(n)
	if last {
		t.sqOpen, t.sqOff = false, 0
		q.sq.next++
		q.mark()
	}
	return true, nil
}

// mark notes that a message ends with the batch as it is.
func (q *qp) mark() {
	t := &q.tx
	t.marks = append(t.marks, mark{t.size, q.sq.next, len(t.arena), t.run, len(t.iov), len(t.pins)})
}

// gather adds n bytes of payload from the cursor's list.
func (q *qp) gather(n int) accessError {
	t := &q.tx
	for n > 0 {
		s := t.sqCur.next(n)
		m, b, e := q.dev.keys.acquire(q.pd, s.LKey, s.Addr, uint64(s.Length), 0)
		if e != accessOK {
			return e
		}
		t.payload(b, m)
		n -= len(b)
	}
	return accessOK
}

// payload adds bytes of an acquired region.
func (t *transmitter) payload(b []byte, m *mr) {
	if len(b) > copyLimit && !t.crc {
		t.refer(b, m)
		return
	}
	t.arena = append(t.arena, b...)
	m.release()
}

func sendOpcode(wr *verbs.SendWR) (op frame.Opcode, inv uint32) {
	op = frame.OpSend
	if wr.Opcode == verbs.WRSendWithInv {
		op, inv = frame.OpSendInv, wr.InvalidateRKey
	}
	if wr.Flags&verbs.SendSolicited != 0 {
		op += frame.OpSendSE - frame.OpSend
	}
	return op, inv
}

// check is done once for a request, before its first byte is built.
func (q *qp) check(w *sendWQE) *fault {
	switch {
	case w.length > maxMessage:
		w.status = verbs.WCLocLenErr
		return localFault("%s of %d bytes, at most %d are possible", w.wr.Opcode, w.length, maxMessage)
	case w.wr.Opcode == verbs.WRRDMARead && q.orq.cap == 0:
		w.status = verbs.WCLocQPOpErr
		return localFault("RDMA READ, but the connection was made for none")
	case w.inline():
		return nil
	}
	right := verbs.Access(0)
	if w.wr.Opcode == verbs.WRRDMARead {
		right = verbs.AccessLocalWrite
	}
	for _, s := range w.wr.SGEs {
		if s.Length == 0 {
			continue
		}
		if _, _, e := q.dev.keys.check(q.pd, s.LKey, s.Addr, uint64(s.Length), right); e != accessOK {
			return q.localProtection(w, e)
		}
	}
	return nil
}

func (q *qp) localProtection(w *sendWQE, e accessError) *fault {
	w.status = verbs.WCLocProtErr
	return localFault("%s: local memory: %s", w.wr.Opcode, e)
}

// readRequest adds a Read Request; false when the batch is full. The entry in
// the outstanding read queue is made first: the answer may come at once.
func (q *qp) readRequest(w *sendWQE) (more bool) {
	t := &q.tx
	if _, more := t.fit(frame.ReadRequestSize, 0); !more {
		return false
	}
	r := outRead{sq: q.sq.next, stag: rand.Uint32(), length: uint32(w.length)}
	w.msn = t.readMSN
	t.readMSN++
	q.mu.Lock()
	*q.orq.at(q.orq.tail) = r
	q.orq.tail++
	q.mu.Unlock()
	start := len(t.arena)
	t.arena = frame.ReadRequest{MSN: w.msn, SinkSTag: r.stag, Length: r.length, SrcSTag: w.wr.RKey, SrcTO: w.wr.RemoteAddr}.Append(t.arena)
	t.end(start, frame.ReadRequestSize, 0)
	q.sq.next++
	q.mark()
	return true
}

// responseSegment adds the next FPDU of the answer to an inbound read.
func (q *qp) responseSegment(r *inRead) (more bool, f *fault) {
	t := &q.tx
	left := r.length - t.irqOff
	n, more := t.fit(frame.TaggedSize, uint64(left))
	if !more {
		return false, nil
	}
	var m *mr
	var b []byte
	if n > 0 {
		var e accessError
		m, b, e = q.dev.keys.acquire(q.pd, r.srcSTag, r.srcTO+uint64(t.irqOff), uint64(n), verbs.AccessRemoteRead)
		if e != accessOK {
			term := frame.NewTerminate(readCodes[e], r.header[:])
			return false, &fault{cause: fmt.Errorf("peer's RDMA READ: %s", e), term: &term}
		}
	}
	start, last := len(t.arena), uint32(n) == left
	t.arena = frame.Tagged{Op: frame.OpReadResponse, Last: last, STag: r.sinkSTag, TO: r.sinkTO + uint64(t.irqOff), Payload: n}.Append(t.arena)
	if n > 0 {
		t.payload(b, m)
	}
	t.end(start, frame.TaggedSize, n)
	t.irqOff += uint32(n)
	if last {
		t.irqOff = 0
		t.irqNext++
		q.mark()
	}
	return true, nil
}
