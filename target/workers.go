package target

import "sync"

// maxWorkers is how many requests of one namespace wait for its backend at the
// same time.
const maxWorkers = 32

// workers run the requests of one namespace that may block, in the order in which
// they come. Goroutines start when there is work and end when there is none, so
// that a namespace without traffic costs nothing, and one that hangs holds up no
// other.
type workers struct {
	start func() // w.run, made once: a go statement with it allocates nothing

	mu      sync.Mutex
	queued  slotList
	running int
}

func newWorkers() *workers {
	w := &workers{}
	w.start = w.run
	return w
}

// submit hands a slot over until its queue gets it back.
func (w *workers) submit(s *slot) {
	w.mu.Lock()
	w.queued.push(s)
	more := w.running < maxWorkers
	if more {
		w.running++
	}
	w.mu.Unlock()
	if more {
		go w.start()
	}
}

func (w *workers) run() {
	for {
		w.mu.Lock()
		s := w.queued.pop()
		if s == nil {
			w.running--
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		s.status = s.runIO()
		s.q.post(s)
	}
}
