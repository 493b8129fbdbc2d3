package object

import (
	"context"
	"fmt"

	"rbd/verbs"
)

// Event is the completion event of a CQ that is waited for: it stays until somebody
// has taken it, and two are one.
type Event struct {
	fired  chan struct{}
	closed chan struct{}
}

// NewEvent makes an event that has not fired.
func NewEvent() Event {
	return Event{fired: make(chan struct{}, 1), closed: make(chan struct{})}
}

// Fire lets one Wait return.
func (e Event) Fire() {
	select {
	case e.fired <- struct{}{}:
	default:
	}
}

// Close ends every Wait. It is called once.
func (e Event) Close() { close(e.closed) }

// Closed is closed by Close.
func (e Event) Closed() <-chan struct{} { return e.closed }

// IsClosed says that Close was called.
func (e Event) IsClosed() bool {
	select {
	case <-e.closed:
		return true
	default:
		return false
	}
}

// Wait takes the event. Its error is that of ctx, or wraps verbs.ErrClosed.
func (e Event) Wait(ctx context.Context) error {
	if e.IsClosed() {
		return fmt.Errorf("wait for completion queue: %w", verbs.ErrClosed)
	}
	select {
	case <-e.fired:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-e.closed:
		return fmt.Errorf("wait for completion queue: %w", verbs.ErrClosed)
	}
}
