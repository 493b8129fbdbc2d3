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
func (l *queueConn) handle(batch []verbs.WC) {
	q := l.q
	if err := l.rcv.take(batch); err != nil {
		l.fail(fmt.Errorf("queue %d: %w", q.id, err)) // what came before it counts
	}
	if len(l.rcv.again) == 0 {
		return
	}
	// Before a slot is free again: its next answer needs a receive.
	if err := l.qp.PostRecv(l.rcv.again); err != nil {
		l.fail(fmt.Errorf("queue %d: %w", q.id, err))
		return
	}
	q.mu.Lock()
	if l.dead {
		q.mu.Unlock()
		return
	}
	l.reap()
	for i := range l.rcv.cqes {
		if err := l.x.answer(&l.rcv.cqes[i]); err != nil {
			l.fail(fmt.Errorf("queue %d: %w", q.id, err))
			break
		}
	}
	l.handlerWRs, l.handlerDone = l.advance(l.handlerWRs, l.handlerDone)
	q.complete(l.handlerDone)
}

// fill gives slots to those that wait and builds their capsules. The caller
// holds the queue's mu.
func (l *queueConn) fill(wrs []verbs.SendWR) []verbs.SendWR {
	wrs = wrs[:0]
	if l.dead {
		return wrs
	}
	for {
		i, r := l.x.next()
		if r == nil {
			return wrs
		}
		l.x.slots[i].tick = l.q.ctl.tick.Load()
		sges := l.capsules.build(l.x, i, r)
		wrs = append(wrs, verbs.SendWR{
			ID: uint64(l.x.cid(i)), Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGEs: sges,
		})
	}
}

// send posts capsules. An error ends the connection, and with it the requests.
func (l *queueConn) send(wrs []verbs.SendWR) {
	if err := l.qp.PostSend(wrs); err != nil {
		l.fail(fmt.Errorf("queue %d: %w", l.q.id, err))
	}
}

// reap takes the completions of sends. The caller holds the queue's mu.
func (l *queueConn) reap() {
	for {
		n := l.sendCQ.Poll(l.sendWCs)
		for i := range l.sendWCs[:n] {
			wc := &l.sendWCs[i]
			switch wc.Status {
			case verbs.WCSuccess:
				if err := l.x.sent(uint16(wc.ID)); err != nil {
					l.fail(fmt.Errorf("queue %d: %w", l.q.id, err))
					return
				}
			case verbs.WCWRFlushErr: // the end of the connection says why
			default:
				l.fail(fmt.Errorf("queue %d: %w", l.q.id,
					&WorkError{Work: "send command capsule", Status: wc.Status, VendorErr: wc.VendorErr}))
				return
			}
		}
		if n < len(l.sendWCs) {
			return
		}
	}
}

// advance sends what waits for the slots that have become free, and collects the
// requests that are over. The caller holds the queue's mu; advance unlocks it.
func (l *queueConn) advance(wrs []verbs.SendWR, done []*Request) ([]verbs.SendWR, []*Request) {
	l.pace()
	wrs = l.fill(wrs)
	clear(done)
	done = l.x.take(done[:0])
	stuck := l.x.stuck() && !l.q.posting // who posts looks for completions afterwards
	l.q.mu.Unlock()
	if len(wrs) > 0 {
		l.send(wrs)
	}
	if stuck {
		l.wakeMinder()
	}
	return wrs, done
}

func (l *queueConn) wakeMinder() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// mind watches the connection until ctx ends. It reports the connection's end,
// and sees to it that requests go on when an answer has overtaken the completion
// of its SEND and nothing else would look at the send CQ.
func (l *queueConn) mind(ctx context.Context) {
	gone := l.id.Disconnected()
	for {
		select {
		case <-ctx.Done():
			return
		case <-gone:
			l.fail(fmt.Errorf("queue %d: %w", l.q.id, l.id.Err()))
			gone = nil
		case <-l.kick:
			l.chase(ctx)
		}
	}
}

// chase waits for completions of sends as long as something depends on them.
func (l *queueConn) chase(ctx context.Context) {
	q := l.q
	for {
		if l.sendCQ.ReqNotify() != nil {
			return // destroyed: the queue is ending
		}
		q.mu.Lock()
		if l.dead {
			q.mu.Unlock()
			return
		}
		l.reap()
		l.minderWRs, l.minderDone = l.advance(l.minderWRs, l.minderDone)
		q.complete(l.minderDone)
		q.mu.Lock()
		stuck := l.x.stuck()
		q.mu.Unlock()
		if !stuck || l.sendCQ.Wait(ctx) != nil {
			return
		}
	}
}
