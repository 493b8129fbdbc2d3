package initiator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"syscall"
	"time"

	"rbd/verbs"
	"rbd/wire"
)

// run brings a controller to life with its first association. An error says that
// this has ended already.
func (c *Controller) run(a *association) error {
	if !c.activate(a) {
		err := a.endError()
		a.abort(err)
		return err
	}
	c.background.Go(c.tellChanges)
	c.background.Go(func() { c.recoverAll(a) })
	return nil
}

// activate lets an association serve the requests. It returns false when that has
// ended already, or the controller is closing.
func (c *Controller) activate(a *association) bool {
	c.turnover.Lock()
	defer c.turnover.Unlock()
	if !c.enterLive(a) {
		return false
	}
	// Before a request is sent: it must not go to another disk.
	c.adopt(a.found, true)
	for i, q := range c.queues {
		var via *Queue
		if i >= a.granted {
			via = c.queues[i%a.granted]
		}
		q.resume(via)
	}
	if a.events {
		a.background.Go(a.watchEvents)
	}
	return true
}

// enterLive is the moment from which on the end of the association is the loss of
// the controller's connection, and Close ends this association.
func (c *Controller) enterLive(a *association) bool {
	from, ok := c.makeLive(a)
	if ok {
		c.logTransition(from, StateLive)
	}
	return ok
}

// makeLive is the part of enterLive that nobody sees a half of.
func (c *Controller) makeLive(a *association) (from State, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.ended {
		return c.state, false
	}
	if from, ok = c.transit(StateLive); ok {
		c.assoc, c.why = a, nil
		close(a.live)
	}
	return from, ok
}

// lost notes that the live association has ended because of err. It does not
// block.
func (c *Controller) lost(err error) {
	c.mu.Lock()
	to := StateReconnecting
	if c.stay {
		to = StateLost
	}
	c.why = err
	c.mu.Unlock()
	if _, ok := c.become(to); ok {
		c.opts.Logger.Warn("connection lost", "nqn", c.opts.SubNQN, "addr", c.addr.String(), "err", err, "state", to)
	}
}

// suspend lets requests wait, or refuses them with err if there will be no other
// association. It comes before the connections are cut.
func (c *Controller) suspend(err error) {
	c.turnover.Lock()
	defer c.turnover.Unlock()
	for _, q := range c.queues {
		if c.State() == StateReconnecting {
			q.hold()
		} else {
			q.giveUp(err)
		}
	}
}

// closeQueues refuses further requests, for good: no association comes to life any
// more, and one that is just doing so has resumed all queues before.
func (c *Controller) closeQueues() {
	c.turnover.Lock()
	defer c.turnover.Unlock()
	for _, q := range c.queues {
		q.close(ErrClosed)
	}
}

// mayWait notes that the connection of a request was lost, and says whether the
// request may wait for another one. A request that has been without an answer over
// several losses does not wait longer than for one: maybe it is the cause.
func (c *Controller) mayWait(r *Request) bool {
	now := time.Since(c.born)
	if r.lost == 0 {
		r.lost = now
		return true
	}
	return c.opts.LossTimeout < 0 || now-r.lost < c.opts.LossTimeout
}

// StopReconnecting makes the loss of the connection final: requests that wait for
// another one end with ErrConnectionLost, and if the connection is lost later, so
// do all then. Whoever is about to end calls it, so as not to wait for a target
// that is away.
func (c *Controller) StopReconnecting() {
	c.mu.Lock()
	c.stay = true
	c.mu.Unlock()
	select {
	case c.stopped <- struct{}{}:
	default:
	}
}

// staysLost says that there is to be no other connection.
func (c *Controller) staysLost() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stay || c.state != StateReconnecting && c.state != StateLost
}

// recoverAll makes a new association whenever the last one has ended, until there
// is to be none any more.
func (c *Controller) recoverAll(a *association) {
	defer close(c.over)
	var last time.Time // when it reconnected
	for {
		<-a.over
		a.background.Wait()
		if a = c.recover(a, last); a == nil {
			return
		}
		last = time.Now()
	}
}

// outcome is how a try to connect went.
type outcome struct {
	a   *association
	err error
}

// recover makes an association after lost, which has ended, and returns nil when
// there is to be none. last is when lost was made, zero for the first one.
func (c *Controller) recover(lost *association, last time.Time) *association {
	begun := time.Now()
	log := c.opts.Logger.With("nqn", c.opts.SubNQN, "addr", c.addr.String())
	quiet := c.quiescence(lost.err())
	if quiet > 0 && !c.staysLost() {
		log.Info("reconnect when the target must have noticed the loss, too", "in", quiet)
	}
	first := begun.Add(quiet)
	if soonest := last.Add(c.opts.ReconnectDelay); first.Before(soonest) {
		first = soonest // connections don't last here: no faster than that
	}
	r := newRecovery(c.opts.ReconnectDelay, c.opts.LossTimeout, begun, first)
	ctx, cancel := context.WithCancelCause(c.life)
	defer cancel(nil)
	tries := make(chan outcome)
	timer := time.NewTimer(0)
	defer timer.Stop()
	var failure error // of the last try
	for !c.staysLost() {
		action, wait := r.step(time.Now())
		switch action {
		case recoveryTry:
			log.Debug("reconnect", "try", r.tries)
			go func() {
				a, err := c.associate(ctx, (*association).steps)
				tries <- outcome{a, err}
			}()
		case recoveryGiveUp:
			c.become(StateLost)
			c.giveUp(failure)
			log.Error("the target stays away: requests fail until it is back", "for", time.Since(begun).Round(time.Millisecond), "err", c.Err())
		case recoveryWait:
			timer.Reset(wait)
		}
		if action != recoveryWait {
			continue
		}
		select {
		case <-timer.C:
		case <-c.life.Done():
		case <-c.stopped:
		case o := <-tries:
			if o.err == nil && c.activate(o.a) {
				log.Info("reconnected", "after", time.Since(begun).Round(time.Millisecond), "tries", r.tries)
				return o.a
			}
			if o.a != nil {
				o.err = o.a.err()
				o.a.abort(ErrClosed)
			}
			level := slog.LevelWarn
			if failure != nil && o.err != nil && failure.Error() == o.err.Error() {
				level = slog.LevelDebug
			}
			failure = o.err
			log.Log(ctx, level, "can't reconnect", "try", r.tries, "err", failure)
			r.failed(time.Now(), refused(failure))
		}
	}
	cancel(ErrClosed)
	if r.out {
		if o := <-tries; o.a != nil {
			o.a.abort(ErrClosed)
		}
	}
	c.become(StateLost)
	c.giveUp(failure)
	c.kill(c.Err())
	return nil
}

// giveUp ends the requests that wait, because of the loss and the failure of the
// last try, if there was one.
func (c *Controller) giveUp(failure error) {
	c.mu.Lock()
	if failure != nil {
		c.why = fmt.Errorf("%w; the last try to reconnect: %w", c.why, failure)
	}
	c.mu.Unlock()
	err := c.endError()
	for _, q := range c.queues {
		q.giveUp(err)
	}
}

// quiescence is how long to wait after a loss, so that the target has noticed it
// too, and has ended what it had in hand, before anything is sent again (NVMe Base
// 2.1, Communication Loss Handling). When the target has closed the connection
// that is so already. Else its keep-alive timer sees to it: it expires in twice the
// timeout at most, because it may be looked at just before the timeout is over.
// Without keep-alive nothing is known.
func (c *Controller) quiescence(why error) time.Duration {
	for _, closed := range []error{verbs.ErrDisconnected, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(why, closed) {
			return 0
		}
	}
	kato := time.Duration(c.opts.kato()) * time.Millisecond
	return 2 * ((kato + time.Second - 1) / time.Second * time.Second) // targets count in seconds
}

// refused says that the target does not want this host, and that there is no use in
// asking again soon.
func refused(err error) bool {
	if errors.Is(err, errAuthentication) {
		return true
	}
	var failure *ConnectError
	var cmd *CommandError
	if !errors.As(err, &failure) || failure.Stage != StageConnect || !errors.As(err, &cmd) {
		return false
	}
	return cmd.Status.DNR() || errors.Is(cmd.Status, wire.StatusConnectInvalidHost)
}
