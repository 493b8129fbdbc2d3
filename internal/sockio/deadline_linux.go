package sockio

import (
	"math"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// deadline ends the waits of one side. Its event is an eventfd that is readable
// when something has changed that a wait in progress must know.
type deadline struct {
	event int
	at    atomic.Int64 // nanoseconds since base; 0 is none
}

// base is what deadlines are counted from: a clock that is not set back.
var base = time.Now()

func (d *deadline) open() (err error) {
	d.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	return err
}

func (d *deadline) set(t time.Time) {
	at := int64(0)
	if !t.IsZero() {
		at = max(int64(t.Sub(base)), 1)
	}
	d.at.Store(at)
	d.wake()
}

// wake makes the wait in progress, or the next one, look around.
func (d *deadline) wake() {
	one := [8]byte{1}
	_, _ = unix.Write(d.event, one[:]) // fails only when it is readable already
}

// seen makes the event unreadable.
func (d *deadline) seen() {
	var n [8]byte
	_, _ = unix.Read(d.event, n[:])
}

// some says that there is a deadline.
func (d *deadline) some() bool { return d.at.Load() != 0 }

func (d *deadline) passed() bool {
	at := d.at.Load()
	return at != 0 && int64(time.Since(base)) >= at
}

// left is the time until the deadline as poll wants it, in milliseconds, -1 for
// ever; or os.ErrDeadlineExceeded.
func (d *deadline) left() (int, error) {
	at := d.at.Load()
	if at == 0 {
		return -1, nil
	}
	left := time.Duration(at) - time.Since(base)
	if left <= 0 {
		return 0, os.ErrDeadlineExceeded
	}
	return int(min(left.Milliseconds()+1, math.MaxInt32)), nil
}

func (d *deadline) close() {
	if d.event > 0 {
		_ = unix.Close(d.event)
	}
}
