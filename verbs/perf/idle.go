package perf

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// idle is how a goroutine waits that polls: at first it looks again at once, then
// it gives way to other goroutines and threads between looks, and when nothing
// came for 10 ms it sleeps. The zero value is ready.
type idle struct {
	looks int
	since time.Time // of the last eager look
}

const (
	eagerLooks = 32
	politeTime = 10 * time.Millisecond
	napTime    = 50 * time.Microsecond
)

// wait is called after a look that found nothing.
func (w *idle) wait() {
	w.looks++
	switch {
	case w.looks < eagerLooks:
	case w.looks == eagerLooks:
		w.since = time.Now()
	case time.Since(w.since) < politeTime:
		runtime.Gosched()
		// The thread that brings what is awaited may need this CPU: where there are
		// only two, this makes the difference between 40 and 700 µs.
		_, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
	default:
		time.Sleep(napTime)
	}
}

// found is called after a look that found something.
func (w *idle) found() { w.looks = 0 }
