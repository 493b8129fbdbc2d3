package initiator

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Protects how long a disk pauses: when tries are made, when requests end, that
// neither depends on how long a try takes, and that no request ends without a try.
func TestRecovery(t *testing.T) {
	const refused = true
	second := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	type try struct {
		takes   float64 // seconds
		refused bool
	}
	for _, tc := range []struct {
		name         string
		delay, limit float64 // seconds
		first        float64
		tries        []try // the last one is repeated
		until        float64
		want         []string
	}{
		{"at once, then with the delay", 10, 600, 0, []try{{0.001, false}}, 35,
			[]string{"0 try", "10 try", "20 try", "30 try"}},
		{"what a try takes is part of the delay", 10, 600, 0, []try{{4, false}}, 35,
			[]string{"0 try", "10 try", "20 try", "30 try"}},
		{"tries that take longer are one second apart", 10, 600, 0, []try{{12, false}}, 30,
			[]string{"0 try", "13 try", "26 try"}},
		{"or the delay, if that is less", 0.5, 600, 0, []try{{1, false}}, 3.2,
			[]string{"0 try", "1.5 try", "3 try"}},
		{"the first one may be later", 10, 600, 7, []try{{1, false}}, 20,
			[]string{"7 try", "17 try"}},
		{"requests end in time, tries go on", 10, 15, 0, []try{{1, false}}, 32,
			[]string{"0 try", "10 try", "15 give up", "20 try", "30 try"}},
		{"in time though a try is out", 10, 15, 0, []try{{100, false}}, 103,
			[]string{"0 try", "15 give up", "101 try"}},
		{"not before the first try", 10, 2, 10, []try{{1, false}}, 22,
			[]string{"10 try", "12 give up", "20 try"}},
		{"nor while it is out", 10, 60, 60, []try{{20, false}}, 82,
			[]string{"60 try", "70 give up", "81 try"}},
		{"in time if it was early enough", 10, 60, 45, []try{{1, false}}, 66,
			[]string{"45 try", "55 try", "60 give up", "65 try"}},
		{"for ever", 10, -1, 0, []try{{1, false}}, 22,
			[]string{"0 try", "10 try", "20 try"}},
		{"refused again and again", 10, 600, 0, []try{{1, refused}}, 32,
			[]string{"0 try", "10 try", "20 try", "21 give up", "30 try"}},
		{"refused, but not in a row", 10, 600, 0, []try{{1, refused}, {1, refused}, {1, false}, {1, refused}}, 52,
			[]string{"0 try", "10 try", "20 try", "30 try", "40 try", "50 try", "51 give up"}},
		{"refused for ever", 10, -1, 0, []try{{1, refused}}, 22,
			[]string{"0 try", "10 try", "20 try", "21 give up"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			begin := time.Unix(1000, 0)
			now, end := begin, begin.Add(second(tc.until))
			r := newRecovery(second(tc.delay), second(tc.limit), begin, begin.Add(second(tc.first)))
			var got []string
			var ends time.Time // of the try that is out
			var is try
			for !now.After(end) {
				if !ends.IsZero() && !now.Before(ends) {
					r.failed(now, is.refused)
					ends = time.Time{}
				}
				action, wait := r.step(now)
				at := fmt.Sprintf("%g ", now.Sub(begin).Seconds())
				switch action {
				case recoveryTry:
					got = append(got, at+"try")
					is = tc.tries[min(r.tries, len(tc.tries))-1]
					ends = now.Add(second(is.takes))
				case recoveryGiveUp:
					got = append(got, at+"give up")
				case recoveryWait:
					if wait <= 0 {
						t.Fatalf("%s: asked to wait for %v", at, wait)
					}
					next := now.Add(wait)
					if !ends.IsZero() && ends.Before(next) {
						next = ends
					}
					now = next
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}
