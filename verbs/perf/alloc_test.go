package perf_test

import (
	"runtime"
	"testing"

	"rbd/verbs/perf"
)

// Protects the figures from the garbage collector: an iteration allocates nothing,
// on neither end. A test of many iterations makes about as many allocations as
// one of few.
func TestNoAllocationPerIteration(t *testing.T) {
	p, addr := serve(t, &perf.Server{})
	mallocs := func(cfg perf.Config) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := perf.Run(t.Context(), p, addr, cfg); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs
	}
	for _, op := range []perf.Op{perf.WriteBW, perf.ReadBW, perf.SendLat, perf.WriteLat} {
		for _, poll := range []bool{false, true} {
			few := perf.Config{Op: op, Size: 64, Iterations: 100, Poll: poll}
			many := few
			many.Iterations = 2500
			mallocs(few)
			if a, b := mallocs(few), mallocs(many); b > a+600 {
				t.Errorf("%s, poll %v: %d allocations for %d iterations, %d for %d", op, poll, a, few.Iterations, b, many.Iterations)
			}
		}
	}
}
