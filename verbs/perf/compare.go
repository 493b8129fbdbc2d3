package perf

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"rbd/verbs"
)

// Side is one of two things that are compared: where, and how.
type Side struct {
	Provider verbs.Provider
	Addr     verbs.Addr
	Config   Config
}

// Comparison is what both sides did.
type Comparison struct {
	// Rounds is how often each side was measured.
	Rounds int
	// Results are, for each side, the round in the middle by the figure compared.
	Results [2]Result
	// Ratio is the first side's figure by the second's: the average of bandwidth, or
	// the typical latency.
	Ratio float64
}

// Compare measures two sides in turn, so that a slow moment of the machine hits
// both, and each begins every other round. When ctx ends early, or a test fails,
// the rounds that both sides had finished are returned with the error; Rounds is
// 0 if there are none.
func Compare(ctx context.Context, sides [2]Side, rounds int) (Comparison, error) {
	if sides[0].Config.Op != sides[1].Config.Op {
		return Comparison{}, errors.New("different tests can't be compared")
	}
	var results [2][]Result
	var failed error
	for i := range 2 * rounds {
		which := i&1 ^ i>>1&1 // 0 1 1 0
		s := &sides[which]
		r, err := Run(ctx, s.Provider, s.Addr, s.Config)
		if err != nil {
			failed = err
			break
		}
		results[which] = append(results[which], r)
	}
	c := Comparison{Rounds: min(len(results[0]), len(results[1]))}
	if c.Rounds == 0 {
		return c, failed
	}
	for i, list := range results {
		list = list[:c.Rounds]
		slices.SortFunc(list, func(a, b Result) int { return cmp.Compare(a.figure(), b.figure()) })
		c.Results[i] = list[c.Rounds/2]
	}
	if f := c.Results[1].figure(); f > 0 {
		c.Ratio = c.Results[0].figure() / f
	}
	return c, failed
}

// figure is what is compared.
func (r *Result) figure() float64 {
	if r.Op.Latency() {
		return float64(r.Latency.Typical)
	}
	return r.Bandwidth.Average
}
