package initiator

import (
	"context"
	"fmt"

	"rbd/verbs"
	"rbd/wire"
)

// responseStride is the room of one response capsule. It is more than the
// capsule needs, so that a longer one is told by its length.
const responseStride = 64

// responses is the registered memory that response capsules are received into.
type responses struct {
	mem []byte
	mr  verbs.MR
	// all holds one work request per entry of the receive queue; its SGEs last.
	all  []verbs.RecvWR
	sges []verbs.SGE
	// Of the receive handler: the batch that it works on.
	again []verbs.RecvWR
	cqes  []wire.CQE
}

// prepare makes the work requests for n receives.
func (r *responses) prepare(n int) {
	r.all = make([]verbs.RecvWR, n)
	r.sges = make([]verbs.SGE, n)
	r.again = make([]verbs.RecvWR, 0, n)
	r.cqes = make([]wire.CQE, 0, n)
	for i := range r.all {
		r.sges[i] = verbs.SGE{Addr: r.mr.Addr() + uint64(i*responseStride), Length: responseStride, LKey: r.mr.LKey()}
		r.all[i] = verbs.RecvWR{ID: uint64(i), SGEs: r.sges[i : i+1]}
	}
}

// take parses a batch of completed receives and notes them to be posted again.
func (r *responses) take(batch []verbs.WC) error {
	r.again, r.cqes = r.again[:0], r.cqes[:0]
	for i := range batch {
		wc := &batch[i]
		switch {
		case wc.Status == verbs.WCWRFlushErr: // the end of the connection says why
			continue
		case wc.Status != verbs.WCSuccess:
			return &WorkError{Work: "receive response capsule", Status: wc.Status, VendorErr: wc.VendorErr}
		case wc.ID >= uint64(len(r.all)):
			return fmt.Errorf("completion of receive %d, which was not posted", wc.ID)
		case wc.Flags&verbs.WCWithInv != 0:
			return fmt.Errorf("response capsule invalidated key 0x%08x, which was not asked for", wc.InvalidatedRKey)
		case wc.ByteLen != wire.CQESize:
			return fmt.Errorf("response capsule of %d bytes, want %d", wc.ByteLen, wire.CQESize)
		}
		var c wire.CQE
		at := int(wc.ID) * responseStride
		if err := c.Parse(r.mem[at : at+wire.CQESize]); err != nil {
			return err
		}
		r.cqes = append(r.cqes, c)
		r.again = append(r.again, r.all[wc.ID])
	}
	return nil
}

// handle is the handler of the receive CQ: it takes a batch of response
// capsules, posts the receives again, sends what waited for the slots, and tells
// the owners.
func (q *Queue) handle(batch []verbs.WC) {
	if err := q.rcv.take(batch); err != nil {
		q.ctl.fail(fmt.Errorf("queue %d: %w", q.id, err)) // what came before it counts
	}
	if len(q.rcv.again) == 0 {
		return
	}
	// Before a slot is free again: its next answer needs a receive.
	if err := q.conn.qp.PostRecv(q.rcv.again); err != nil {
		q.ctl.fail(fmt.Errorf("queue %d: %w", q.id, err))
		return
	}
	q.mu.Lock()
	if q.dead {
		q.mu.Unlock()
		return
	}
	q.reap()
	for i := range q.rcv.cqes {
		if err := q.x.answer(&q.rcv.cqes[i]); err != nil {
			q.ctl.fail(fmt.Errorf("queue %d: %w", q.id, err))
			break
		}
	}
	q.handlerWRs, q.handlerDone = q.advance(q.handlerWRs, q.handlerDone)
	q.complete(q.handlerDone)
}

// advance sends what waits for the slots that have become free, and collects the
// requests that are over. The caller holds mu; advance unlocks it.
func (q *Queue) advance(wrs []verbs.SendWR, done []*Request) ([]verbs.SendWR, []*Request) {
	wrs = q.fill(wrs)
	clear(done)
	done = q.x.take(done[:0])
	stuck := q.x.stuck()
	q.mu.Unlock()
	if len(wrs) > 0 {
		q.send(wrs)
	}
	if stuck {
		q.wakeMinder()
	}
	return wrs, done
}

func (q *Queue) wakeMinder() {
	select {
	case q.kick <- struct{}{}:
	default:
	}
}

// mind watches the connection until ctx ends. It reports the connection's end,
// and sees to it that requests go on when an answer has overtaken the completion
// of its SEND and nothing else would look at the send CQ.
func (q *Queue) mind(ctx context.Context) {
	gone := q.conn.id.Disconnected()
	for {
		select {
		case <-ctx.Done():
			return
		case <-gone:
			q.ctl.fail(fmt.Errorf("queue %d: %w", q.id, q.conn.id.Err()))
			gone = nil
		case <-q.kick:
			q.chase(ctx)
		}
	}
}

// chase waits for completions of sends as long as something depends on them.
func (q *Queue) chase(ctx context.Context) {
	for {
		if q.conn.sendCQ.ReqNotify() != nil {
			return // destroyed: the queue is ending
		}
		q.mu.Lock()
		if q.dead {
			q.mu.Unlock()
			return
		}
		q.reap()
		q.minderWRs, q.minderDone = q.advance(q.minderWRs, q.minderDone)
		q.complete(q.minderDone)
		q.mu.Lock()
		stuck := q.x.stuck()
		q.mu.Unlock()
		if !stuck || q.conn.sendCQ.Wait(ctx) != nil {
			return
		}
	}
}
