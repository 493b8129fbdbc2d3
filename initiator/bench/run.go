package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"rbd/initiator"
	"rbd/verbs"
)

// Result is what was measured.
type Result struct {
	Reads, Writes uint64
	Bytes         uint64
	Elapsed       time.Duration
	IOPS          float64
	MiBPerSecond  float64
	Latency       Latency
	// VerifyDone says that all that was written was read back and compared in the end,
	// Verified how many blocks that were.
	VerifyDone bool
	Verified   uint64
}

// Run measures a namespace. When ctx ends early, what was measured until then is
// returned with ctx's error. Write modes overwrite the namespace.
func Run(ctx context.Context, ctrl *initiator.Controller, nsid uint32, cfg Config) (Result, error) {
	ns, err := ctrl.Namespace(nsid)
	if err != nil {
		return Result{}, err
	}
	if info := ns.Info(); cfg.Mode.Writes() && info.ReadOnly {
		return Result{}, fmt.Errorf("namespace %d: %w", nsid, initiator.ErrReadOnly)
	}
	blocks, err := cfg.blocks(ns, ctrl.Info().MaxTransfer)
	if err != nil {
		return Result{}, err
	}
	var stop atomic.Bool
	workers, err := hire(ctrl, nsid, &cfg, blocks, &stop)
	defer dismiss(ctrl, workers)
	if err != nil {
		return Result{}, err
	}
	defer context.AfterFunc(ctx, func() { stop.Store(true) })()
	begin := time.Now()
	err = all(workers, measuring, begin)
	r := result(workers, &cfg, time.Since(begin))
	if err == nil && cfg.Verify && ctx.Err() == nil {
		stop.Store(false)
		err = all(workers, verifying, begin)
		if r.VerifyDone = err == nil && !stop.Load(); r.VerifyDone {
			r.Verified = written(workers)
		}
	}
	if err == nil {
		err = ctx.Err() // and not with another error: who ends a run early may overlook this one
	}
	return r, err
}

// written is how many blocks the workers have written.
func written(workers []*worker) (blocks uint64) {
	for _, w := range workers {
		for _, n := range w.written {
			if n > 0 {
				blocks++
			}
		}
	}
	return blocks
}

// hire makes workers for as many queues as there are requests for.
func hire(ctrl *initiator.Controller, nsid uint32, cfg *Config, blocks uint64, stop *atomic.Bool) ([]*worker, error) {
	queues := ctrl.Queues()
	n := min(len(queues), cfg.Depth)
	var workers []*worker
	for i := range n {
		depth := cfg.Depth / n
		if i < cfg.Depth%n {
			depth++
		}
		w := &worker{
			cfg: cfg, queue: queues[i], stop: stop,
			firstBlock: blocks / uint64(n) * uint64(i), blocks: blocks / uint64(n),
			random: cfg.Seed + uint64(i)<<32,
			reqs:   make([]*initiator.Request, 0, depth), again: make([]*initiator.Request, 0, depth),
			block: make([]uint64, depth), start: make([]time.Duration, depth),
		}
		workers = append(workers, w)
		if cfg.Verify {
			w.written, w.busy = make([]uint32, w.blocks), make(map[uint64]struct{}, depth)
		}
		for tag := range depth {
			r := &initiator.Request{NSID: nsid, Length: uint64(cfg.BlockSize), Owner: w, Tag: uint64(tag)}
			if !ctrl.Buffers().TryGet(cfg.BlockSize, &r.Buf) {
				return workers, fmt.Errorf("%d buffers of %d bytes are more than the pool of %d bytes has: %w",
					cfg.Depth, cfg.BlockSize, ctrl.Buffers().Size(), verbs.ErrNoMemory)
			}
			pattern{seed: cfg.Seed, offset: uint64(tag)}.fill(r.Buf.Data)
			w.reqs = append(w.reqs, r)
		}
	}
	return workers, nil
}

// dismiss puts the buffers back.
func dismiss(ctrl *initiator.Controller, workers []*worker) {
	for _, w := range workers {
		for _, r := range w.reqs {
			ctrl.Buffers().Put(&r.Buf)
		}
	}
}

// all runs a phase on all workers, and returns the first error.
func all(workers []*worker, p phase, base time.Time) error {
	for _, w := range workers {
		w.base = base
		w.begin(p)
	}
	var err error
	for _, w := range workers {
		<-w.done
		if err == nil {
			err = w.err
		}
	}
	return err
}

func result(workers []*worker, cfg *Config, elapsed time.Duration) Result {
	r := Result{Elapsed: elapsed}
	var h histogram
	for _, w := range workers {
		r.Reads += w.reads
		r.Writes += w.writes
		h.merge(&w.latency)
	}
	r.Bytes = (r.Reads + r.Writes) * uint64(cfg.BlockSize)
	r.IOPS = float64(r.Reads+r.Writes) / elapsed.Seconds()
	r.MiBPerSecond = float64(r.Bytes) / (1 << 20) / elapsed.Seconds()
	r.Latency = h.summary()
	return r
}
