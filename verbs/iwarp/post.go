package iwarp

import (
	"rbd/verbs"
)

// PostSend queues work and, if nobody transmits, transmits it on the calling
// goroutine as far as the socket takes it.
func (q *qp) PostSend(wrs []verbs.SendWR) error {
	q.mu.Lock()
	err := q.pushSends(wrs)
	flush := q.flushed && !q.destroyed
	if flush {
		q.flush()
	}
	q.mu.Unlock()
	q.transmitHere()
	return err
}

// transmitHere transmits on the goroutine of a caller, where no handler may be
// called: the worker calls it.
func (q *qp) transmitHere() {
	q.tryTransmit()
	if q.sendCQ.unserved() {
		q.kick()
	}
}

func (q *qp) pushSends(wrs []verbs.SendWR) error {
	for i := range wrs {
		if err := q.pushSend(&wrs[i]); err != nil {
			return &verbs.PostError{Op: "post send", BadWR: i, Err: err}
		}
	}
	return nil
}

func (q *qp) pushSend(wr *verbs.SendWR) error {
	switch {
	case q.destroyed:
		return verbs.ErrClosed
	case q.state < verbs.QPStateRTS:
		return verbs.ErrState
	case q.sq.full():
		return verbs.ErrNoMemory
	case wr.Opcode > verbs.WRRDMARead || len(wr.SGEs) > q.cap.MaxSendSGE:
		return verbs.ErrInvalid
	}
	var length uint64
	for i := range wr.SGEs {
		length += uint64(wr.SGEs[i].Length)
	}
	w := q.sq.at(q.sq.tail)
	w.data = w.data[:0]
	if wr.Flags&verbs.SendInline != 0 {
		if wr.Opcode == verbs.WRRDMARead || length > uint64(q.cap.MaxInlineData) {
			return verbs.ErrInvalid
		}
		for _, s := range wr.SGEs {
			w.data = append(w.data, memoryAt(s.Addr, s.Length)...)
		}
	}
	sges := append(w.wr.SGEs[:0], wr.SGEs...)
	w.wr = *wr
	w.wr.SGEs = sges
	w.length, w.msn, w.done, w.status, w.vendor = length, 0, false, verbs.WCSuccess, 0
	q.sq.tail++
	return nil
}

// PostRecv queues receives.
func (q *qp) PostRecv(wrs []verbs.RecvWR) error {
	q.mu.Lock()
	err := q.pushRecvs(wrs)
	flush := q.flushed && !q.destroyed
	if flush {
		q.flush()
	}
	q.mu.Unlock()
	if flush && q.recvCQ.unserved() {
		q.kick()
	}
	return err
}

func (q *qp) pushRecvs(wrs []verbs.RecvWR) error {
	for i := range wrs {
		if err := q.pushRecv(&wrs[i]); err != nil {
			return &verbs.PostError{Op: "post recv", BadWR: i, Err: err}
		}
	}
	return nil
}

func (q *qp) pushRecv(wr *verbs.RecvWR) error {
	switch {
	case q.destroyed:
		return verbs.ErrClosed
	case q.rq.full():
		return verbs.ErrNoMemory
	case len(wr.SGEs) > q.cap.MaxRecvSGE:
		return verbs.ErrInvalid
	}
	w := q.rq.at(q.rq.tail)
	w.id, w.status, w.length = wr.ID, verbs.WCSuccess, 0
	w.sges = append(w.sges[:0], wr.SGEs...)
	for i := range w.sges {
		w.length += uint64(w.sges[i].Length)
	}
	w.length = min(w.length, maxMessage)
	q.rq.tail++
	return nil
}

// kick wakes the worker.
func (q *qp) kick() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}
