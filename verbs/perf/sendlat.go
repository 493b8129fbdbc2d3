package perf

import (
	"fmt"
	"time"

	"rbd/verbs"
)

// sendLat is the client's end of SendLat: each answer is followed by the next
// ping.
type sendLat struct {
	c      *client
	pinger pinger
	recv   [1]verbs.RecvWR
	pings  []time.Duration // when each was sent
	end    time.Duration   // when the last was answered
}

func newSendLat(c *client) *sendLat {
	return &sendLat{c: c, pings: make([]time.Duration, 0, min(c.cfg.iterations(), recorded))}
}

func (t *sendLat) begin() error {
	t.pinger.init(t.c.qp, pingWR(&t.c.endpoint, SendLat, t.c.cfg.Size, t.c.inline, 0, 0))
	t.recv[0] = recvWR(&t.c.endpoint, t.c.cfg.Size)
	if err := t.c.postRecv(t.recv[:], pingRecvs); err != nil {
		return err
	}
	return t.ping(t.c.now())
}

func (t *sendLat) ping(now time.Duration) error {
	t.pings = append(t.pings, now)
	return t.pinger.send()
}

func (t *sendLat) handle(batch []verbs.WC) {
	now := t.c.now()
	for i := range batch {
		if err := t.complete(&batch[i], now); err != nil {
			t.c.finish(err)
			return
		}
	}
}

func (t *sendLat) complete(wc *verbs.WC, now time.Duration) error {
	switch {
	case wc.Status != verbs.WCSuccess:
		return wcError(wc, SendLat)
	case wc.ID != idRecv:
		return t.pinger.completed()
	}
	if err := checkLength(wc, t.c.cfg.Size); err != nil {
		return err
	}
	t.c.progress.Add(1)
	if len(t.pings) == t.c.cfg.iterations() || t.c.stopping.Load() {
		t.end = now
		t.c.finish(nil)
		return nil
	}
	if err := t.c.qp.PostRecv(t.recv[:]); err != nil {
		return err
	}
	return t.ping(now)
}

func (t *sendLat) result() Result { return latencyResult(t.c.cfg, t.pings, t.end) }

// recvWR is the receive of a latency test.
func recvWR(e *endpoint, size int) verbs.RecvWR {
	return verbs.RecvWR{ID: idRecv, SGEs: []verbs.SGE{e.sge(recvOffset(size), size)}}
}

// checkLength refuses a message that is not of the test's size.
func checkLength(wc *verbs.WC, size int) error {
	if int(wc.ByteLen) != size {
		return fmt.Errorf("the peer sent %d bytes, not %d", wc.ByteLen, size)
	}
	return nil
}
