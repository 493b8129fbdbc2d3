package initiator

import "fmt"

// State is the state of a controller.
type State uint8

// The states.
const (
	// StateConnecting: Connect or Discover is at work.
	StateConnecting State = iota
	// StateLive: requests are taken and sent.
	StateLive
	// StateReconnecting: the connection is lost. Requests are taken and wait for
	// the next one, as do those that were not answered.
	StateReconnecting
	// StateLost: the loss time is over, or the target refuses this host: requests
	// end at once with ErrConnectionLost. Tries to reconnect go on, unless there is
	// no reconnecting.
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
	case StateReconnecting:
		return "reconnecting"
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
		return s == StateConnecting || s == StateReconnecting || s == StateLost
	case StateReconnecting:
		return s == StateLive
	case StateLost:
		return s == StateLive || s == StateReconnecting
	case StateClosing:
		return s != StateClosing && s != StateClosed
	case StateClosed:
		return s == StateClosing
	}
	return false
}

// become makes a transition if it is allowed, and says whether it did and which
// state was before.
func (c *Controller) become(to State) (from State, ok bool) {
	c.mu.Lock()
	from, ok = c.transit(to)
	c.mu.Unlock()
	if ok {
		c.logTransition(from, to)
	}
	return from, ok
}

// transit is become for a caller that holds mu, to change more with the state. It
// is the only place that changes the state. The caller calls logTransition when it
// holds no lock.
func (c *Controller) transit(to State) (from State, ok bool) {
	if from = c.state; !from.mayBecome(to) {
		return from, false
	}
	c.state = to
	return from, true
}

func (c *Controller) logTransition(from, to State) {
	c.opts.Logger.Debug("controller state", "nqn", c.opts.SubNQN, "from", from, "to", to)
}

// State is the controller's state now.
func (c *Controller) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}
