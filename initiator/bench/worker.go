package bench

import (
	"sync/atomic"
	"time"

	"rbd/initiator"
)

// phase is what a worker does.
type phase uint8

const (
	// measuring: requests as the mode has them, until the time is over.
	measuring phase = iota
	// verifying: every block that was written is read and compared, once.
	verifying
)

// worker keeps its requests out on one queue, within a stretch of the namespace
// that is its own. It implements initiator.Owner.
type worker struct {
	cfg   *Config
	queue *initiator.Queue
	base  time.Time
	stop  *atomic.Bool // of all workers: the time is over, or one has an error

	firstBlock, blocks uint64 // the stretch, in blocks of cfg.BlockSize
	written            []uint32
	busy               map[uint64]struct{} // blocks that are out, with Verify

	phase  phase
	cursor uint64 // of sequential modes and of verifying: the next block
	random uint64
	reqs   []*initiator.Request // Tag is the index
	block  []uint64             // by Tag: the block that is out
	start  []time.Duration      // by Tag: when it was submitted
	again  []*initiator.Request
	out    int
	err    error
	done   chan struct{}

	reads, writes uint64
	latency       histogram
}

// begin submits all requests for a phase. done is closed when the last is back.
func (w *worker) begin(p phase) {
	w.phase, w.cursor, w.done = p, 0, make(chan struct{})
	w.again = w.again[:0]
	now := time.Since(w.base)
	w.out = 0
	for _, r := range w.reqs {
		if w.prepare(r) {
			w.start[r.Tag] = now
			w.again = append(w.again, r)
		}
	}
	w.out = len(w.again)
	if w.out == 0 {
		close(w.done)
		return
	}
	w.queue.Submit(w.again)
}

// Complete implements initiator.Owner.
func (w *worker) Complete(batch []*initiator.Request) {
	now := time.Since(w.base)
	if now >= w.cfg.Runtime && w.phase == measuring {
		w.stop.Store(true)
	}
	w.again = w.again[:0]
	for _, r := range batch {
		w.account(r, now)
		if w.err == nil && w.prepare(r) {
			w.start[r.Tag] = now
			w.again = append(w.again, r)
		}
	}
	if w.out += len(w.again) - len(batch); w.out == 0 {
		close(w.done)
		return
	}
	if len(w.again) > 0 {
		w.queue.Submit(w.again)
	}
}

// account notes a finished request.
func (w *worker) account(r *initiator.Request, now time.Duration) {
	block := w.block[r.Tag]
	delete(w.busy, block)
	if r.Err != nil {
		w.fail(r.Err)
		return
	}
	if w.phase == measuring {
		w.latency.add(uint64(now - w.start[r.Tag]))
	}
	switch {
	case r.Op == initiator.OpWrite:
		w.writes++
		return
	case w.phase == measuring:
		w.reads++
	}
	if w.cfg.Verify && w.written[block] > 0 {
		if err := w.pattern(block).check(r.Buf.Data); err != nil {
			w.fail(err)
		}
	}
}

func (w *worker) fail(err error) {
	if w.err == nil {
		w.err = err
	}
	w.stop.Store(true)
}

// prepare gives a request its next range; false if there is none.
func (w *worker) prepare(r *initiator.Request) bool {
	if w.stop.Load() {
		return false
	}
	var block uint64
	if w.phase == verifying {
		for w.cursor < w.blocks && w.written[w.cursor] == 0 {
			w.cursor++
		}
		if w.cursor == w.blocks {
			return false
		}
		block, r.Op = w.cursor, initiator.OpRead
		w.cursor++
	} else {
		block, r.Op = w.choose()
	}
	w.block[r.Tag] = block
	r.Offset = (w.firstBlock + block) * uint64(w.cfg.BlockSize)
	if !w.cfg.Verify {
		return true
	}
	if w.phase == measuring {
		w.busy[block] = struct{}{}
	}
	if r.Op == initiator.OpWrite {
		w.written[block]++
		w.pattern(block).fill(r.Buf.Data)
	}
	return true
}

// choose picks a block that is not out, and what to do with it.
func (w *worker) choose() (uint64, initiator.Op) {
	var v uint64
	w.random, v = next(w.random)
	op := initiator.OpRead
	if w.cfg.Mode == RandRW && v>>63 != 0 || w.cfg.Mode == Write || w.cfg.Mode == RandWrite {
		op = initiator.OpWrite
	}
	block := w.cursor
	if w.cfg.Mode.random() {
		block = v >> 1 % w.blocks
	}
	for w.isBusy(block) {
		block = (block + 1) % w.blocks
	}
	w.cursor = (block + 1) % w.blocks
	return block, op
}

func (w *worker) isBusy(block uint64) bool {
	_, out := w.busy[block]
	return out
}

func (w *worker) pattern(block uint64) pattern {
	return pattern{seed: w.cfg.Seed, offset: (w.firstBlock + block) * uint64(w.cfg.BlockSize), sequence: w.written[block]}
}
