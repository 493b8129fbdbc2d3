package perf

import "time"

// Bandwidth are the figures of a bandwidth test.
type Bandwidth struct {
	// Peak and Average are in MiB/s. Peak is 0 if there was none.
	Peak, Average float64
	// MsgRate is in millions of messages a second.
	MsgRate float64
}

// bandwidthOf makes the figures of n messages of size bytes; best is the least
// time, in nanoseconds, that a message took in any stretch, 0 if unknown.
func bandwidthOf(size, n int, elapsed time.Duration, best float64) (b Bandwidth) {
	if n > 0 && elapsed > 0 {
		perSecond := float64(n) / elapsed.Seconds()
		b.Average, b.MsgRate = perSecond*float64(size)/(1<<20), perSecond/1e6
	}
	if best > 0 {
		b.Peak = float64(size) / (1 << 20) * 1e9 / best
	}
	return b
}

// fastest is perftest's definition of the peak: of all stretches from the post of
// request i to a completion that covers request k-1, the least time a request, in
// nanoseconds; 0 if there is none.
//
// With posts as points (i, time) and a completion as the point (k, time), that is
// the least slope between them. For each completion it is found on the upper hull
// of the posts before it, so that all stretches cost n log n and not n².
func fastest(posted []time.Duration, marks []mark) (best float64) {
	hull := make([]int, 0, 64)
	slope := func(a, b int) float64 { return float64(posted[b]-posted[a]) / float64(b-a) }
	next := 0
	for _, m := range marks {
		for ; next < m.count && next < len(posted); next++ {
			for len(hull) > 1 && slope(hull[len(hull)-1], next) >= slope(hull[len(hull)-2], hull[len(hull)-1]) {
				hull = hull[:len(hull)-1]
			}
			hull = append(hull, next)
		}
		to := func(i int) float64 { return float64(m.at-posted[i]) / float64(m.count-i) }
		lo, hi := 0, len(hull)-1
		for lo < hi {
			mid := (lo + hi) / 2
			if slope(hull[mid], hull[mid+1]) > to(hull[mid]) {
				lo = mid + 1
			} else {
				hi = mid
			}
		}
		if len(hull) == 0 {
			continue
		}
		if t := to(hull[lo]); t > 0 && (best == 0 || t < best) {
			best = t
		}
	}
	return best
}
