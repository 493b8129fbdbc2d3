package backend

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func newTestRAM(t *testing.T) Backend {
	t.Helper()
	b, err := NewRAM(64<<10, 512)
	return opened(t, b, err)
}

// TestDelay protects the time, and that a slow backend never runs on a queue.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := Delay(newTestRAM(t), Delays{OpRead: time.Second, OpFlush: 3 * time.Second})
		p := make([]byte, 512)
		start := time.Now()
		for _, s := range []struct {
			call func() error
			want time.Duration
		}{
			{func() error { return b.ReadAt(p, 0) }, time.Second},
			{func() error { return b.WriteAt(p, 0, 0) }, time.Second},
			{b.Flush, 4 * time.Second},
		} {
			if err := s.call(); err != nil || time.Since(start) != s.want {
				t.Errorf("after %v: %v", time.Since(start), err)
			}
		}
		if b.Attributes().NonBlocking || !errors.Is(b.TryReadAt(p, 0), ErrWouldBlock) || !errors.Is(b.TryWriteAt(p, 0, 0), ErrWouldBlock) {
			t.Error("a delayed backend says that it does not block")
		}
	})
}

// TestFaults protects the counting.
func TestFaults(t *testing.T) {
	broken := errors.New("broken")
	b := Faults(newTestRAM(t), Fault{Ops: []Op{OpWrite, OpTrim}, After: 2, Every: 3, Err: broken})
	p := make([]byte, 512)
	for i := 1; i <= 9; i++ {
		want := i == 5 || i == 8
		call := func() error { return b.WriteAt(p, 0, 0) }
		if i%2 == 0 {
			call = func() error { return b.Trim(0, 512) }
		}
		err := call()
		if (err != nil) != want || want && !errors.Is(err, broken) {
			t.Errorf("request %d: %v", i, err)
		}
		if err := errors.Join(b.ReadAt(p, 0), b.Flush(), b.WriteZeroes(0, 512, 0)); err != nil {
			t.Errorf("other requests: %v", err)
		}
	}
	if err := Faults(b, Fault{Err: broken}).Flush(); !errors.Is(err, broken) {
		t.Errorf("wrapped twice, all requests fail: %v", err)
	}
}

// TestLimit protects the rates, and that an idle time is no credit beyond the
// burst.
func TestLimit(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit Limits
		n     int
		want  time.Duration
	}{
		{"bytes", Limits{BytesPerSecond: 1 << 20}, 256, time.Second},
		{"iops", Limits{IOPS: 100}, 200, 2 * time.Second},
		{"both", Limits{BytesPerSecond: 1 << 20, IOPS: 10}, 30, 3 * time.Second},
		{"none", Limits{}, 100, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := Limit(newTestRAM(t), c.limit)
				time.Sleep(time.Hour)
				start := time.Now()
				p := make([]byte, 4096)
				for range c.n {
					if err := b.ReadAt(p, 0); err != nil {
						t.Fatal(err)
					}
				}
				if d := time.Since(start); d > c.want || d < c.want-limitBurst-c.want/time.Duration(c.n) {
					t.Errorf("%d requests took %v, want about %v", c.n, d, c.want)
				}
			})
		})
	}
}

// TestReadOnly protects what is exported with ro from every change.
func TestReadOnly(t *testing.T) {
	b := ReadOnly(newTestRAM(t))
	p := make([]byte, 512)
	for name, err := range map[string]error{
		"write": b.WriteAt(p, 0, 0), "try": b.TryWriteAt(p, 0, FUA), "trim": b.Trim(0, 512), "zeroes": b.WriteZeroes(0, 512, 0),
	} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := errors.Join(b.ReadAt(p, 0), b.TryReadAt(p, 0), b.Flush()); err != nil || !b.Attributes().ReadOnly {
		t.Errorf("reading: %v", err)
	}
}
