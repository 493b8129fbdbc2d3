package perf

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Protects the peak: the quick search finds what perftest's search of all
// stretches does.
func TestFastest(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		n := 1 + random.IntN(60)
		every := 1 + random.IntN(n)
		var posted []time.Duration
		var marks []mark
		at := time.Duration(0)
		for len(posted) < n || len(marks) == 0 || marks[len(marks)-1].count < n {
			at += time.Duration(random.IntN(1000))
			for range random.IntN(4) {
				if len(posted) < n {
					posted = append(posted, at)
				}
			}
			done := 0
			if len(marks) > 0 {
				done = marks[len(marks)-1].count
			}
			if next := min(done+every, n); next <= len(posted) && random.IntN(2) == 0 {
				marks = append(marks, mark{next, at + 1})
			}
		}
		want := math.Inf(1)
		for _, m := range marks {
			for i := range m.count {
				want = min(want, float64(m.at-posted[i])/float64(m.count-i))
			}
		}
		if got := fastest(posted, marks); math.Abs(got-want) > 1e-9*want {
			t.Fatalf("round %d: %v, want %v\nposted %v\nmarks %v", round, got, want, posted, marks)
		}
	}
	if got := fastest(nil, nil); got != 0 {
		t.Errorf("nothing has the peak of %v", got)
	}
	if got := fastest([]time.Duration{5}, nil); got != 0 {
		t.Errorf("a post without a completion has the peak of %v", got)
	}
}

// Protects the meaning of the bandwidth columns.
func TestBandwidthOf(t *testing.T) {
	b := bandwidthOf(1<<20, 500, 250*time.Millisecond, 1e6)
	if b.Average != 2000 || b.MsgRate != 0.002 || b.Peak != 1000 {
		t.Errorf("%+v", b)
	}
	if b := bandwidthOf(1<<20, 0, 0, 0); b != (Bandwidth{}) {
		t.Errorf("nothing is %+v", b)
	}
}

// Protects the definitions of print_report_lat: half of each iteration, the two
// longest for the maximum only, the median, and which ranks the percentiles are.
func TestLatencyOf(t *testing.T) {
	var deltas []time.Duration
	for i := range 1002 { // 2, 4, ... 2004 µs: latencies of 1 to 1002 µs
		deltas = append(deltas, time.Duration(2*(i+1))*time.Microsecond)
	}
	rand.New(rand.NewPCG(3, 4)).Shuffle(len(deltas), func(i, j int) { deltas[i], deltas[j] = deltas[j], deltas[i] })
	l := latencyOf(deltas)
	µs := time.Microsecond
	want := Latency{Min: µs, Max: 1001 * µs, Typical: 500*µs + µs/2, Avg: 500*µs + µs/2, P99: 991 * µs, P999: 1000 * µs}
	want.Stdev = time.Duration(math.Round(math.Sqrt((1000*1000-1)/12.0) * 1000)) // of 1..1000
	if l != want {
		t.Errorf("%+v\nwant %+v", l, want)
	}
	odd := latencyOf([]time.Duration{10, 2, 6, 100, 50})
	if odd.Min != 1 || odd.Typical != 3 || odd.Max != 25 || odd.Avg != 3 {
		t.Errorf("five iterations: %+v", odd)
	}
	if l := latencyOf(nil); l != (Latency{}) {
		t.Errorf("nothing is %+v", l)
	}
	for n := 1; n < 6; n++ {
		if l := latencyOf(slices.Repeat([]time.Duration{8}, n)); l.Min != 4 || l.Max != 4 || l.Typical != 4 || l.P999 != 4 || l.Stdev != 0 {
			t.Errorf("%d iterations: %+v", n, l)
		}
	}
}

// Protects the part of a timed test that counts, and tests that end before it.
func TestLatencyWindow(t *testing.T) {
	pings := make([]time.Duration, 101) // at 0, 10, ... 1000 ms
	for i := range pings {
		pings[i] = time.Duration(i) * 10 * time.Millisecond
	}
	timed := Config{Op: SendLat, Duration: time.Second}
	r := latencyResult(timed, pings, time.Second)
	if r.Iterations != 49 || r.Elapsed != 490*time.Millisecond || r.Latency.Typical != 5*time.Millisecond {
		t.Errorf("the middle half: %+v", r)
	}
	if r := latencyResult(timed, pings[:20], 0); r.Iterations != 19 || r.Elapsed != 190*time.Millisecond {
		t.Errorf("ended before it counted: %+v", r)
	}
	counted := Config{Op: SendLat, Iterations: 101}
	if r := latencyResult(counted, pings, 1010*time.Millisecond); r.Iterations != 101 || r.Elapsed != 1010*time.Millisecond {
		t.Errorf("all: %+v", r)
	}
	if r := latencyResult(counted, pings[:11], 0); r.Iterations != 10 || r.Elapsed != 100*time.Millisecond {
		t.Errorf("interrupted: %+v", r)
	}
	if r := latencyResult(counted, nil, 0); r.Iterations != 0 {
		t.Errorf("nothing: %+v", r)
	}
}

// Protects users from tests that make no sense, and perftest's defaults.
func TestConfig(t *testing.T) {
	for _, c := range []Config{
		{Op: 0, Size: 1}, {Op: 9, Size: 1}, {Op: WriteBW, Size: 0}, {Op: WriteBW, Size: -1}, {Op: WriteBW, Size: MaxSize + 1},
		{Op: WriteBW, Size: 1, Iterations: 4}, {Op: WriteBW, Size: 1, Iterations: -5}, {Op: WriteBW, Size: 1, Iterations: MaxIterations + 1},
		{Op: WriteBW, Size: 1, Duration: -1}, {Op: WriteBW, Size: 1, Duration: MaxDuration + 1}, {Op: WriteBW, Size: 1, Iterations: 5, Duration: time.Second},
		{Op: WriteBW, Size: 1, TxDepth: -1}, {Op: WriteBW, Size: 1, TxDepth: MaxTxDepth + 1},
	} {
		if c.Check() == nil {
			t.Errorf("%+v was taken", c)
		}
	}
	for op, want := range map[Op][2]int{WriteBW: {65536, 5000}, ReadBW: {65536, 1000}, SendLat: {2, 1000}, WriteLat: {2, 1000}} {
		c := Config{Op: op, Size: op.DefaultSize()}
		if err := c.complete(); err != nil || c.Size != want[0] || c.Iterations != want[1] || c.TxDepth != 128 {
			t.Errorf("%s: %+v, %v", op, c, err)
		}
		if again, err := ParseOp(op.String()); err != nil || again != op {
			t.Errorf("%s reads back as %s, %v", op, again, err)
		}
	}
	for _, s := range []string{"", "write", "WRITE_BW", "Op(0)"} {
		if op, err := ParseOp(s); err == nil {
			t.Errorf("%q is %s", s, op)
		}
	}
}
