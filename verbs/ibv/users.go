package ibv

import (
	"fmt"
	"sync"

	"rbd/verbs"
)

// users counts what depends on an object, and makes sure that nothing new does
// once it is freed.
type users struct {
	mu    sync.Mutex
	n     int
	freed bool
}

// add counts a user; false when the object is freed.
func (u *users) add() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.freed {
		return false
	}
	u.n++
	return true
}

func (u *users) remove() {
	u.mu.Lock()
	u.n--
	u.mu.Unlock()
}

// free marks the object as freed, unless it has users or was freed before.
func (u *users) free(what string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.freed:
		return fmt.Errorf("%s: %w", what, verbs.ErrClosed)
	case u.n > 0:
		return fmt.Errorf("%s: %d users: %w", what, u.n, verbs.ErrBusy)
	}
	u.freed = true
	return nil
}
