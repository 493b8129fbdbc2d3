package sockio

import (
	"math"
	"os"
	"sync/atomic"
	"time"
)

// deadline is when the waits of one side end; the zero value is never.
type deadline struct {
	at atomic.Pointer[time.Time]
}

func (d *deadline) set(t time.Time) {
	if t.IsZero() {
		d.at.Store(nil)
		return
	}
	d.at.Store(&t)
}

// some says that there is a deadline.
func (d *deadline) some() bool { return d.at.Load() != nil }

func (d *deadline) passed() bool {
	at := d.at.Load()
	return at != nil && !time.Now().Before(*at)
}

// left is the time until the deadline, or os.ErrDeadlineExceeded.
func (d *deadline) left() (time.Duration, error) {
	at := d.at.Load()
	if at == nil {
		return math.MaxInt64, nil
	}
	left := time.Until(*at)
	if left <= 0 {
		return 0, os.ErrDeadlineExceeded
	}
	return left, nil
}
