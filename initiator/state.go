package initiator

import "fmt"

// State is the state of a controller.
type State uint8

// The states. A controller that is lost stays so until it is closed.
const (
	// StateConnecting: Connect or Discover is at work.
	StateConnecting State = iota
	// StateLive: requests are taken.
	StateLive
	// StateLost: the connection has ended; all requests end with ErrConnectionLost.
	StateLost
	// StateClosing: Close was called; requests that are out are finished.
	StateClosing
	// StateClosed: everything is freed.
	StateClosed
)

func (s State) String() string {
	switch s {
	case StateConnecting:
		return "connecting"
	case StateLive:
		return "live"
	case StateLost:
		return "lost"
	case StateClosing:
		return "closing"
	case StateClosed:
		return "closed"
	}
	return fmt.Sprintf("State(%d)", uint8(s))
}

// mayBecome says whether the transition is allowed.
func (s State) mayBecome(to State) bool {
	switch to {
	case StateLive:
		return s == StateConnecting
	case StateLost:
		return s == StateConnecting || s == StateLive
	case StateClosing:
		return s != StateClosing && s != StateClosed
	case StateClosed:
		return s == StateClosing
	}
	return false
}

// become makes a transition if it is allowed, and says whether it did and which
// state was before. It is the only place that changes the state.
func (c *Controller) become(to State) (from State, ok bool) {
	c.mu.Lock()
	if from = c.state; from.mayBecome(to) {
		c.state, ok = to, true
	}
	c.mu.Unlock()
	if !ok {
		return from, false
	}
	c.opts.Logger.Debug("controller state", "nqn", c.opts.SubNQN, "from", from, "to", to)
	return from, true
}

// State is the controller's state now.
func (c *Controller) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}
