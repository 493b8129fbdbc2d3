package ibv

import "rbd/verbs"

// heldWR is a send request that waits in SQD. Devices differ in what they make of
// that state, and iWARP ones close the connection, so it is kept here.
type heldWR struct {
	wr     verbs.SendWR
	inline []byte
}

// hold queues requests without handing them to the device: in SQD until RTS, in
// ERR to be flushed. The mutex is held.
func (q *qp) hold(wrs []verbs.SendWR) (n int, err error) {
	for i := range wrs {
		if err = q.checkSend(&wrs[i], q.sq.room() > 0); err != nil {
			break
		}
		q.sq.put(0, wrs[i].ID)
		q.sq.tail.Add(1)
		if q.State() == verbs.QPStateSQD {
			q.held = append(q.held, keep(&wrs[i]))
		}
		n++
	}
	if q.State() == verbs.QPStateERR {
		q.flushRest()
	}
	return n, err
}

// keep copies a request, and its inline data.
func keep(wr *verbs.SendWR) heldWR {
	h := heldWR{wr: *wr}
	if wr.Flags&verbs.SendInline == 0 {
		h.wr.SGEs = append([]verbs.SGE(nil), wr.SGEs...)
		return h
	}
	for _, s := range wr.SGEs {
		if s.Length > 0 {
			h.inline = append(h.inline, inlineBytes(s.Addr, int(s.Length))...)
		}
	}
	h.wr.SGEs = []verbs.SGE{{Addr: verbs.AddrOf(h.inline), Length: uint32(len(h.inline))}}
	return h
}

// release posts what was held, in RTS again. What the device refuses then ends the
// connection, as nobody waits for the answer any more. The mutex is held.
func (q *qp) release() {
	held := q.held
	q.held = nil
	q.sq.tail.Store(q.sq.given)
	for i := range held {
		if _, err := q.postSends([]verbs.SendWR{held[i].wr}); err != nil {
			q.id.failLater(err)
			q.enterERR()
			_, _ = q.postSends([]verbs.SendWR{held[i].wr})
		}
	}
}
