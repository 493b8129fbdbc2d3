package perf

import (
	"sync/atomic"
	"time"

	"rbd/verbs"
)

// writer is either end of WriteLat. Each message ends in its number; the other
// end looks at its memory until it sees that number there.
type writer struct {
	pinger  pinger
	sent    *byte // the last byte of what is sent
	watched watchedByte
	idle    idle
}

func (w *writer) init(e *endpoint, size, inline int, rkey uint32, addr uint64) {
	w.pinger.init(e.qp, pingWR(e, WriteLat, size, inline, rkey, addr))
	w.sent, w.watched = &e.mem[size-1], watch(e.mem, recvOffset(size)+size-1)
}

// write sends message number n.
func (w *writer) write(n int) error {
	*w.sent = byte(n)
	return w.pinger.send()
}

// await waits for message number n of the peer; false when stop came first.
func (w *writer) await(n int, stop *atomic.Bool) bool {
	for w.watched.load() != byte(n) {
		if stop.Load() {
			return false
		}
		w.idle.wait()
	}
	w.idle.found()
	return true
}

// complete takes a completion.
func (w *writer) complete(wc *verbs.WC) error {
	if wc.Status != verbs.WCSuccess {
		return wcError(wc, WriteLat)
	}
	return w.pinger.completed()
}

// writeLat is the client's end of WriteLat.
type writeLat struct {
	c     *client
	w     writer
	pings []time.Duration
	end   time.Duration
}

func newWriteLat(c *client) *writeLat {
	return &writeLat{c: c, pings: make([]time.Duration, 0, min(c.cfg.iterations(), recorded))}
}

func (t *writeLat) begin() error {
	t.w.init(&t.c.endpoint, t.c.cfg.Size, t.c.inline, t.c.remote.RKey, t.c.remote.Addr)
	t.c.loops.Go(func() { t.c.finish(t.loop()) })
	return nil
}

func (t *writeLat) loop() error {
	for n := 1; n <= t.c.cfg.iterations(); n++ {
		t.pings = append(t.pings, t.c.now())
		if err := t.w.write(n); err != nil {
			return err
		}
		if !t.w.await(n, &t.c.stopping) {
			return nil
		}
		t.c.progress.Add(1)
	}
	t.end = t.c.now()
	return nil
}

func (t *writeLat) handle(batch []verbs.WC) {
	for i := range batch {
		if err := t.w.complete(&batch[i]); err != nil {
			t.c.finish(err)
			return
		}
	}
}

func (t *writeLat) result() Result { return latencyResult(t.c.cfg, t.pings, t.end) }
