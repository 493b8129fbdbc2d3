package bench

import (
	"errors"
	"testing"
	"time"
)

// Protects the percentiles: every value is found again in its bucket, within the
// width of the bucket.
func TestHistogram(t *testing.T) {
	last := -1
	for v := uint64(0); v < 1<<40; v += 1 + v/50 {
		i := bucketOf(v)
		if i < last || i >= buckets {
			t.Fatalf("value %d is in bucket %d, after %d", v, i, last)
		}
		last = i
		if got := valueOf(i); bucketOf(got) != i || got > v+v/64+1 || v > got+got/64+1 {
			t.Fatalf("value %d is in bucket %d, whose middle is %d", v, i, got)
		}
	}
	if i := bucketOf(1<<64 - 1); i >= buckets {
		t.Errorf("the largest value is in bucket %d of %d", i, buckets)
	}

	var a, b histogram
	for v := range uint64(1000) {
		(&a).add(1000 * (v + 1))
	}
	b.add(5)
	b.merge(&a)
	b.merge(&histogram{})
	s := b.summary()
	near := func(name string, got, want time.Duration) {
		if got < want-want/50 || got > want+want/50 {
			t.Errorf("%s is %v, want about %v", name, got, want)
		}
	}
	near("min", s.Min, 5)
	near("mean", s.Mean, 500*time.Microsecond)
	near("median", s.P50, 500*time.Microsecond)
	near("99th", s.P99, 990*time.Microsecond)
	near("99.9th", s.P999, 999*time.Microsecond)
	near("max", s.Max, time.Millisecond)
	if (new(histogram).summary() != Latency{}) {
		t.Error("a summary of nothing is something")
	}
}

// Protects verification: data of another place, another time or another seed is
// told apart, and the error says where.
func TestPattern(t *testing.T) {
	p := pattern{seed: 1, offset: 4096, sequence: 1}
	b := make([]byte, 4096)
	p.fill(b)
	if err := p.check(b); err != nil {
		t.Error(err)
	}
	for _, q := range []pattern{{2, 4096, 1}, {1, 8192, 1}, {1, 4096, 2}} {
		if q.check(b) == nil {
			t.Errorf("%+v taken for %+v", p, q)
		}
	}
	b[1003] ^= 1
	var e *VerifyError
	if err := p.check(b); !errors.As(err, &e) || e.Offset != 4096+1000 || e.Sequence != 1 {
		t.Errorf("got %v", err)
	}
}

// Protects the names that users type.
func TestParseMode(t *testing.T) {
	for m := Read; m <= RandRW; m++ {
		if got, err := ParseMode(m.String()); err != nil || got != m {
			t.Errorf("%v: got %v, %v", m, got, err)
		}
	}
	if _, err := ParseMode("trim"); err == nil {
		t.Error("no error")
	}
}
