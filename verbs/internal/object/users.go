package object

import (
	"fmt"
	"sync"

	"rbd/verbs"
)

// Users counts what depends on an object, and makes sure that nothing new does
// once it is freed.
type Users struct {
	mu    sync.Mutex
	n     int
	freed bool
}

// Add counts a user; false when the object is freed.
func (u *Users) Add() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.freed {
		return false
	}
	u.n++
	return true
}

// Remove takes a user off the account.
func (u *Users) Remove() {
	u.mu.Lock()
	u.n--
	u.mu.Unlock()
}

// Free marks the object as freed. The error, which begins with what, wraps
// verbs.ErrBusy if it has users, and verbs.ErrClosed if it was freed before.
func (u *Users) Free(what string) error {
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
