package perf

import (
	"math"
	"slices"
	"time"
)

// Latency are the figures of a latency test: half of the times from one ping to
// the next.
type Latency struct {
	Min, Max, Avg, Stdev time.Duration
	// Typical is the median.
	Typical   time.Duration
	P99, P999 time.Duration
}

// latencyTail is how many of the longest iterations count only for Max.
const latencyTail = 2

// latencyOf sorts the iterations' times and makes the figures, with the indices
// of perftest's print_report_lat.
func latencyOf(deltas []time.Duration) (l Latency) {
	if len(deltas) == 0 {
		return l
	}
	slices.Sort(deltas)
	n := len(deltas) - latencyTail
	if n < 1 { // an interrupted test
		n = len(deltas)
	}
	at := func(i int) time.Duration { return deltas[min(i, len(deltas)-1)] / 2 }
	l.Min, l.Max, l.Typical = at(0), at(n), at(n/2)
	if n%2 == 0 {
		l.Typical = (deltas[n/2] + deltas[n/2-1]) / 4
	}
	l.P99, l.P999 = at(int(math.Ceil(float64(n)*0.99))), at(int(math.Ceil(float64(n)*0.999)))
	var sum, squares float64
	for _, d := range deltas[:n] {
		sum += float64(d) / 2
	}
	avg := sum / float64(n)
	for _, d := range deltas[:n] {
		squares += (float64(d)/2 - avg) * (float64(d)/2 - avg)
	}
	l.Avg, l.Stdev = time.Duration(math.Round(avg)), time.Duration(math.Round(math.Sqrt(squares/float64(n))))
	return l
}

// latencyResult makes the result of pings that were sent at these times, of which
// the last was answered at end (0 if it was not).
func latencyResult(cfg Config, pings []time.Duration, end time.Duration) Result {
	r := Result{Config: cfg}
	from, to := cfg.window()
	lo, _ := slices.BinarySearch(pings, from)
	hi, _ := slices.BinarySearch(pings, to)
	if hi-lo < MinIterations { // it ended before the part that counts
		lo, hi = 0, len(pings)
	}
	pings = pings[lo:hi]
	if len(pings) == 0 {
		return r
	}
	if cfg.Duration > 0 || end == 0 {
		end = pings[len(pings)-1]
		r.Iterations = len(pings) - 1
	} else {
		r.Iterations = len(pings)
	}
	r.Elapsed = end - pings[0]
	deltas := make([]time.Duration, 0, len(pings))
	for i := range len(pings) - 1 {
		deltas = append(deltas, pings[i+1]-pings[i])
	}
	r.Latency = latencyOf(deltas)
	return r
}
