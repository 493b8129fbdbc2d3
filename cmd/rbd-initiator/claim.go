package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"rbd/cmd/internal/command"
	"rbd/cmd/internal/registry"
	"rbd/cmd/internal/runtimedir"
	"rbd/initiator"
	"rbd/nbd/kernel"
)

// startWait is how long another process that has claimed the disk may take until it
// is ready: --idempotent waits for it.
const startWait = 30 * time.Second

// claim makes this process the one that has the subsystem's kernel devices. Without
// them nothing is claimed. It answers true when the disk is connected already and
// that is no error; its line is printed then.
func (s *session) claim(c *cli.Context, nqn string, device deviceChoice) (done bool, err error) {
	dir, err := runtimedir.Make()
	if err != nil {
		if device.wanted {
			return false, err
		}
		s.log.Debug("others can't see what is connected", "err", err)
		return false, nil
	}
	s.dir = dir
	if device.wanted {
		s.lock, err = lockDevices(nqn)
		if !errors.Is(err, registry.ErrLocked) {
			return false, err
		}
	} else if !c.Bool("idempotent") {
		return false, nil
	}
	wait := time.Duration(0)
	if c.Bool("idempotent") && device.wanted {
		wait = startWait
	}
	e, found, err := findConnected(c.Context, dir, nqn, device.wanted, c.String("nbd-socket"), wait)
	switch {
	case err != nil:
		return false, err
	case found && c.Bool("idempotent"):
		return true, printDisks(s.out, s.json, e.Record)
	case found:
		return false, fmt.Errorf("%s is connected already: %s, process %d (--idempotent makes that a success)", nqn, names(e.Disks), e.PID)
	case device.wanted:
		return false, fmt.Errorf("another process is connecting %s as kernel devices, or has it in another runtime folder", nqn)
	}
	return false, nil
}

// deviceLocks is where the locks of kernel devices are, whatever the runtime folder of
// a process is: the devices are the same for all.
const deviceLocks = "/run/rbd"

// lockDevices makes this process the only one with kernel devices of a subsystem.
func lockDevices(nqn string) (*os.File, error) {
	if err := os.MkdirAll(deviceLocks, 0o700); err != nil {
		return nil, fmt.Errorf("kernel devices: %w", err)
	}
	return registry.Lock(deviceLocks, escapeNQN(nqn))
}

// release gives the claim up.
func (s *session) release() {
	if s.lock != nil {
		s.lock.Close()
	}
}

// findConnected looks for a living process that has the subsystem: as kernel devices,
// or else on the given socket, if one is given.
func findConnected(ctx context.Context, dir, nqn string, devices bool, socket string, wait time.Duration) (e registry.Entry, found bool, err error) {
	fits := func(e registry.Entry) bool {
		return e.Alive && e.NQN == nqn && slices.ContainsFunc(e.Disks, func(d registry.Disk) bool {
			if devices {
				return d.Device != ""
			}
			return d.URI != "" && (socket == "" || strings.HasSuffix(d.URI, "socket="+socket))
		})
	}
	for end := time.Now().Add(wait); ; {
		list, err := registry.Entries(ctx, dir)
		if err != nil {
			return e, false, err
		}
		if i := slices.IndexFunc(list, fits); i >= 0 {
			return list[i], true, nil
		}
		if time.Now().After(end) {
			return e, false, nil
		}
		select {
		case <-ctx.Done():
			return e, false, ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// names lists disks for people.
func names(disks []registry.Disk) string {
	var all []string
	for _, d := range disks {
		all = append(all, d.Name())
	}
	return strings.Join(all, ", ")
}

// openKernel opens the nbd driver.
func openKernel(c *cli.Context, opts initiator.Options, device deviceChoice) (*kernelDisks, error) {
	timeout := c.Int("nbd-timeout")
	if timeout < 1 || timeout > 86400 {
		return nil, command.Usagef("connect: --nbd-timeout %d is not from 1 to 86400 seconds", timeout)
	}
	host, err := kernel.Open(opts.Logger)
	if err != nil {
		return nil, fmt.Errorf("--nbd-device: %w", err)
	}
	k := &kernelDisks{
		host: host, choice: device, requestTimeout: time.Duration(timeout) * time.Second, lossTimeout: opts.LossTimeout,
		log: opts.Logger,
	}
	if opts.NoReconnect {
		k.lossTimeout = 0
	}
	return k, nil
}

// firstRetry and lastRetry bound the pauses between tries to reach the target.
const (
	firstRetry = time.Second
	lastRetry  = 10 * time.Second
)

// connectWaiting connects, and tries again for as long as --wait says.
func connectWaiting(c *cli.Context, e endpoint, opts initiator.Options) (*initiator.Controller, error) {
	wait := c.Int("wait")
	if wait < -1 {
		return nil, command.Usagef("connect: --wait %d is neither a number of seconds nor -1", wait)
	}
	end := time.Now().Add(time.Duration(wait) * time.Second)
	told := ""
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		ctrl, err := initiator.Connect(c.Context, e.provider, e.addr, opts)
		if err == nil || c.Context.Err() != nil || wait >= 0 && time.Now().Add(pause).After(end) {
			return ctrl, err
		}
		if err.Error() != told {
			opts.Logger.Warn("the target can't be reached yet", "err", err)
			told = err.Error()
		}
		select {
		case <-c.Context.Done():
			return nil, err
		case <-time.After(pause):
		}
	}
}
