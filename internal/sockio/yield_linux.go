package sockio

import (
	"runtime"
	"time"
	_ "unsafe" // for go:linkname
)

const (
	// yieldAfter is how often a goroutine lets the scheduler take note of it. To the
	// scheduler, a goroutine that goes from one system call to the next runs all the
	// time; after 10 ms its monitor takes away the processor that such a goroutine
	// has in a system call, and then looks every 20 µs for others like it, which on a
	// slow machine costs more than the work. The wait that may follow counts too, so
	// that the sum of yieldAfter and hotTime has to be far below 10 ms.
	yieldAfter = time.Millisecond
	// timeSlice is how long a goroutine keeps its processor at most when others want
	// to run. The runtime gives all goroutines as much.
	timeSlice = 10 * time.Millisecond
)

// goyield is runtime.Gosched without the waking of a thread that would look for
// work: the goroutine goes to the end of its own processor's queue, before those that
// wait for any processor. The runtime has promised to keep it (go.dev/issue/67401).
//
//go:linkname goyield runtime.goyield
func goyield()

// yield lets the scheduler run if it is time.
func (s *side) yield() {
	now := time.Now()
	switch {
	case now.Sub(s.slice) > timeSlice:
		s.slice, s.yielded = now, now
		runtime.Gosched()
	case now.Sub(s.yielded) > yieldAfter:
		s.yielded = now
		goyield()
	}
}
