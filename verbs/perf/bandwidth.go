package perf

import (
	"math"
	"sync"
	"time"

	"rbd/verbs"
)

// mark says when how many requests were complete.
type mark struct {
	count int
	at    time.Duration
}

// bandwidth is the test of WriteBW and ReadBW: it keeps requests out, as many as
// the depth allows, and ends with a SEND that the server answers.
type bandwidth struct {
	c     *client
	every int // requests for one completion
	most  int // requests in all
	keep  bool
	recv  [1]verbs.RecvWR
	fin   [1]verbs.SendWR
	wrs   []verbs.SendWR // of one post; all have the same SGEs

	mu           sync.Mutex
	posted, done int
	postedAt     []time.Duration // of each request, if kept
	marks        []mark          // if kept
	first, last  mark            // what counts
	finPosted    bool
	finSent      bool
	finAnswered  bool
	end          time.Duration // when all was proved to be done
}

func newBandwidth(c *client) *bandwidth {
	b := &bandwidth{c: c, every: c.cfg.signalEvery(), most: math.MaxInt, keep: c.cfg.Duration == 0, wrs: make([]verbs.SendWR, c.cfg.TxDepth)}
	if b.keep {
		b.most = c.cfg.Iterations
		b.postedAt, b.marks = make([]time.Duration, 0, min(b.most, recorded)), make([]mark, 0, min(b.most, recorded)/b.every+2)
	}
	b.recv[0].ID = idRecv
	b.fin[0] = verbs.SendWR{ID: idFin, Opcode: verbs.WRSend, Flags: verbs.SendSignaled}
	return b
}

func (b *bandwidth) begin() error {
	wr := verbs.SendWR{Opcode: verbs.WRRDMAWrite, SGEs: []verbs.SGE{b.c.sge(0, b.c.cfg.Size)}, RemoteAddr: b.c.remote.Addr, RKey: b.c.remote.RKey}
	if b.c.cfg.Op == ReadBW {
		wr.Opcode = verbs.WRRDMARead
	}
	for i := range b.wrs {
		b.wrs[i] = wr
	}
	if err := b.c.postRecv(b.recv[:], 1); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fill(b.c.now())
}

// fill posts what the depth allows, or the end.
func (b *bandwidth) fill(now time.Duration) error {
	stopping := b.c.stopping.Load()
	if n := min(b.most-b.posted, len(b.wrs)-(b.posted-b.done)); n > 0 && !stopping {
		for i := range n {
			b.posted++
			wr := &b.wrs[i]
			wr.ID, wr.Flags = uint64(b.posted), 0
			if b.posted%b.every == 0 || b.posted == b.most {
				wr.Flags = verbs.SendSignaled
			}
			if b.keep {
				b.postedAt = append(b.postedAt, now)
			}
		}
		if err := b.c.qp.PostSend(b.wrs[:n]); err != nil {
			return err
		}
	}
	if b.finPosted || b.posted < b.most && !stopping {
		return nil
	}
	b.finPosted = true
	return b.c.qp.PostSend(b.fin[:])
}

func (b *bandwidth) handle(batch []verbs.WC) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.c.now() // not what it was before begin gave way
	for i := range batch {
		wc := &batch[i]
		if wc.Status != verbs.WCSuccess {
			if err := wcError(wc, b.c.cfg.Op); err != nil {
				b.c.finish(err)
			}
			return
		}
		switch wc.ID {
		case idRecv:
			b.finAnswered = true
		case idFin:
			b.finSent = true
			b.complete(b.posted, now) // all before it
		default:
			b.complete(int(wc.ID), now)
		}
	}
	b.c.progress.Store(uint64(b.done))
	if err := b.fill(now); err != nil {
		b.c.finish(err)
	}
	if b.finSent && b.finAnswered {
		b.end = now
		b.c.finish(nil)
	}
}

// complete notes that count requests are complete.
func (b *bandwidth) complete(count int, now time.Duration) {
	if count == b.done {
		return
	}
	b.done = count
	m := mark{count, now}
	from, to := b.c.cfg.window()
	if b.keep {
		b.marks = append(b.marks, m)
	} else if b.first.count == 0 && now >= from {
		b.first = m
	}
	if now <= to {
		b.last = m
	}
}

func (b *bandwidth) result() Result {
	r := Result{Config: b.c.cfg}
	if b.keep {
		b.first = mark{}
		if len(b.postedAt) > 0 {
			b.first.at = b.postedAt[0]
		}
		if b.end > 0 && b.c.cfg.Op == WriteBW { // the completions say less than the server
			b.last.at = b.end
		}
	} else if b.last.count <= b.first.count { // it ended before the part that counts
		b.first = mark{}
	}
	r.Iterations, r.Elapsed = b.last.count-b.first.count, b.last.at-b.first.at
	r.Bandwidth = bandwidthOf(r.Size, r.Iterations, r.Elapsed, fastest(b.postedAt, b.marks))
	return r
}
