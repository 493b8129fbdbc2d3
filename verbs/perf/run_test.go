package perf_test

import (
	"testing"
	"time"

	"rbd/verbs/perf"
)

// Protects the whole way of every test, with the provider calling and with
// polling, for sizes from one byte to the most, and the figures' plain logic.
func TestRun(t *testing.T) {
	p, addr := serve(t, &perf.Server{})
	for _, op := range []perf.Op{perf.WriteBW, perf.ReadBW, perf.SendLat, perf.WriteLat} {
		for _, size := range []int{1, 2, 4097, 1 << 16, perf.MaxSize} {
			for _, poll := range []bool{false, true} {
				cfg := perf.Config{Op: op, Size: size, Iterations: 150, TxDepth: 7, Poll: poll}
				if size == perf.MaxSize {
					cfg.Iterations = 6
				}
				r, err := perf.Run(t.Context(), p, addr, cfg)
				if err != nil {
					t.Fatalf("%+v: %v", cfg, err)
				}
				if r.Iterations != cfg.Iterations || r.Elapsed <= 0 {
					t.Errorf("%+v: %d iterations in %v", cfg, r.Iterations, r.Elapsed)
				}
				b, l := r.Bandwidth, r.Latency
				if op.Latency() && (l.Min <= 0 || l.Min > l.Typical || l.Typical > l.P99 || l.P99 > l.P999 || l.P999 > l.Max || l.Max > r.Elapsed) {
					t.Errorf("%+v: %+v", cfg, l)
				}
				if !op.Latency() && (b.Average <= 0 || b.MsgRate <= 0 || b.Peak <= 0) {
					t.Errorf("%+v: %+v", cfg, b)
				}
			}
		}
	}
}

// Protects -D: the time is kept, and only the middle half of it counts.
func TestDuration(t *testing.T) {
	p, addr := serve(t, &perf.Server{})
	const d = 400 * time.Millisecond
	for _, op := range []perf.Op{perf.WriteBW, perf.ReadBW, perf.SendLat, perf.WriteLat} {
		begun := time.Now()
		r, err := perf.Run(t.Context(), p, addr, perf.Config{Op: op, Size: 64, Duration: d})
		took := time.Since(begun)
		if err != nil {
			t.Fatalf("%s: %v", op, err)
		}
		if took < d || r.Elapsed > d/2 || r.Elapsed < d/8 || r.Iterations < perf.MinIterations || r.Bandwidth.Peak != 0 {
			t.Errorf("%s took %v: %+v", op, took, r)
		}
	}
}
