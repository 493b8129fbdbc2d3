package target

import (
	"sync"
	"time"
)

// logInterval is how often an error that a peer can cause at will is logged.
const logInterval = time.Second

// logLimiter keeps the log from being flooded.
type logLimiter struct {
	mu      sync.Mutex
	last    time.Time
	skipped int
}

// allow tells whether to log now, and how many messages were not logged since the
// last one.
func (l *logLimiter) allow() (skipped int, ok bool) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.last) < logInterval {
		l.skipped++
		return 0, false
	}
	skipped, l.skipped, l.last = l.skipped, 0, now
	return skipped, true
}
