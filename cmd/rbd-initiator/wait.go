package main

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/urfave/cli/v2"

	"rbd/cmd/internal/command"
	"rbd/initiator"
)

// firstRetry and lastRetry bound the pauses between tries to reach the target.
const (
	firstRetry = time.Second
	lastRetry  = 10 * time.Second
)

// errEnded: a signal came before the target could be reached. That is an end in good
// order, and logged.
var errEnded = errors.New("ended by a signal")

// parseWait reads --wait: for how long the target is waited for, negative for ever.
func parseWait(c *cli.Context) (time.Duration, error) {
	wait := c.Int("wait")
	if wait < -1 || wait > maxSeconds {
		return 0, command.Usagef("connect: --wait %d is neither a number of seconds nor -1", wait)
	}
	return time.Duration(wait) * time.Second, nil
}

// connectWaiting connects, and tries again for as long as wait says.
func connectWaiting(ctx context.Context, e endpoint, opts initiator.Options, wait time.Duration) (*initiator.Controller, error) {
	end := time.Now().Add(wait)
	var last error // why the target could not be reached
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		ctrl, err := initiator.Connect(ctx, e.provider, e.addr, opts)
		switch {
		case err == nil:
			return ctrl, nil
		case ctx.Err() != nil:
			return nil, endedWaiting(ctx, opts, cmp.Or(last, err))
		case wait >= 0 && time.Now().Add(pause).After(end):
			return nil, err
		case last == nil || last.Error() != err.Error():
			opts.Logger.Warn("the target can't be reached yet", "err", err)
		}
		last = err
		select {
		case <-ctx.Done():
			return nil, endedWaiting(ctx, opts, last)
		case <-time.After(pause):
		}
	}
}

// endedWaiting says that a signal has ended the wait, and what it was for.
func endedWaiting(ctx context.Context, opts initiator.Options, why error) error {
	opts.Logger.Info("ended while waiting for the target", "by", context.Cause(ctx), "err", why)
	return errEnded
}
