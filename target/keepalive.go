package target

import (
	"errors"
	"time"

	"rbd/wire"
)

// discoveryKATO is the longest keep alive timeout of a discovery controller, and that of
// a host which asked for none: anybody may have one, so that those of hosts that went
// away must not stay.
const discoveryKATO = 120 * time.Second

var errKeepAlive = errors.New("the keep alive timer expired")

// keepAlive is the keep alive timer of a controller. Any command restarts it
// (traffic based keep alive).
type keepAlive struct {
	timeout  time.Duration // 0: off
	deadline time.Time
}

// set starts the timer anew.
func (k *keepAlive) set(timeout time.Duration, now time.Time) {
	k.timeout, k.deadline = timeout, now.Add(timeout)
}

// kato is the timeout that a host gets who asks for a number of milliseconds.
func (s *subsystem) kato(ms uint32) time.Duration {
	timeout := kato(ms)
	if s.discovery && (timeout == 0 || timeout > discoveryKATO) {
		return discoveryKATO
	}
	return timeout
}

// kato is the timeout that a number of milliseconds asks for, in whole seconds.
func kato(ms uint32) time.Duration {
	return time.Duration((uint64(ms)+999)/1000) * time.Second
}

func (c *controller) keepAliveCommand(r *request, now time.Time) {
	if c.keepAlive.timeout == 0 {
		r.fail(wire.StatusKeepAliveTimeoutInvalid)
		return
	}
	c.keepAlive.set(c.keepAlive.timeout, now)
}

// checkKeepAlive looks at the timer. It returns when to look again, or the zero
// time for never, and whether the timer has expired: then the controller has
// failed, and the caller ends the association.
func (c *controller) checkKeepAlive(now time.Time) (next time.Time, expired bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.keepAlive.timeout == 0 || c.state == controllerGone {
		return time.Time{}, false
	}
	if c.traffic.Swap(false) {
		c.keepAlive.set(c.keepAlive.timeout, now)
	}
	if now.Before(c.keepAlive.deadline) {
		return c.keepAlive.deadline, false
	}
	c.enter(controllerFailed)
	return time.Time{}, true
}
