package bench

import (
	"math/bits"
	"time"
)

// A histogram counts durations in buckets whose width grows with the value: 64
// for each power of two, so that a percentile is off by less than 2 %.
const (
	subBits    = 6
	subBuckets = 1 << subBits
	buckets    = (64 - subBits + 1) * subBuckets
)

type histogram struct {
	counts   [buckets]uint64
	n        uint64
	sum      uint64
	min, max uint64
}

func bucketOf(v uint64) int {
	if v < subBuckets {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return shift<<subBits + int(v>>shift)
}

// valueOf is the middle of a bucket.
func valueOf(i int) uint64 {
	if i < 2*subBuckets {
		return uint64(i)
	}
	shift := i>>subBits - 1
	return (uint64(i&(subBuckets-1))+subBuckets)<<shift + 1<<shift/2
}

func (h *histogram) add(v uint64) {
	h.counts[bucketOf(v)]++
	if h.n == 0 || v < h.min {
		h.min = v
	}
	h.max = max(h.max, v)
	h.n++
	h.sum += v
}

func (h *histogram) merge(o *histogram) {
	if o.n == 0 {
		return
	}
	if h.n == 0 || o.min < h.min {
		h.min = o.min
	}
	h.max = max(h.max, o.max)
	h.n += o.n
	h.sum += o.sum
	for i, c := range o.counts {
		h.counts[i] += c
	}
}

// percentile is the value that a share p of all is at most.
func (h *histogram) percentile(p float64) time.Duration {
	rank := uint64(p * float64(h.n))
	for i, c := range h.counts {
		if rank < c {
			return time.Duration(min(max(valueOf(i), h.min), h.max))
		}
		rank -= c
	}
	return time.Duration(h.max)
}

// Latency sums up how long requests took.
type Latency struct {
	Min, Mean, P50, P99, P999, Max time.Duration
}

func (h *histogram) summary() Latency {
	if h.n == 0 {
		return Latency{}
	}
	return Latency{
		Min: time.Duration(h.min), Mean: time.Duration(h.sum / h.n), Max: time.Duration(h.max),
		P50: h.percentile(0.50), P99: h.percentile(0.99), P999: h.percentile(0.999),
	}
}
