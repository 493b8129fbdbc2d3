package main

import (
	"context"
	"errors"
	"fmt"
	"os"
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
func (s *session) claim(ctx context.Context, want wanted, idempotent bool) (done bool, err error) {
	dir, err := runtimedir.Make()
	if err != nil {
		if want.device.wanted {
			return false, err
		}
		s.log.Warn("list and disconnect will not know of this disk: there is no runtime folder", "err", err)
		return false, nil
	}
	s.dir = dir
	if want.device.wanted {
		s.lock, err = lockDevices(want.nqn)
		if !errors.Is(err, registry.ErrLocked) {
			return false, err
		}
	} else if !idempotent {
		return false, nil
	}
	wait := time.Duration(0)
	if idempotent && want.device.wanted {
		wait = startWait
	}
	e, found, err := findConnected(ctx, dir, &want, wait)
	switch {
	case err != nil:
		return false, err
	case found && idempotent:
		return true, printDisks(s.out, s.json, e.Record)
	case found:
		return false, fmt.Errorf("%s is connected already: %s, process %d, from %s (--idempotent makes that a success)", want.nqn, names(e.Disks), e.PID, e.Address)
	case want.device.wanted:
		return false, fmt.Errorf("another process is connecting %s as kernel devices, or has it in another runtime folder", want.nqn)
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

// findConnected looks for a living process that has the disk, for a while if there is
// none. It is an error if one has another disk of the same name in the same place.
func findConnected(ctx context.Context, dir string, want *wanted, wait time.Duration) (e registry.Entry, found bool, err error) {
	for end := time.Now().Add(wait); ; {
		list, err := registry.Entries(ctx, dir)
		if err != nil {
			return e, false, err
		}
		if e, found, err := want.connectedBy(ctx, list); found || err != nil {
			return e, found, err
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

// parseRequestTimeout reads --nbd-timeout.
func parseRequestTimeout(c *cli.Context) (time.Duration, error) {
	timeout := c.Int("nbd-timeout")
	if timeout < 1 || timeout > 86400 {
		return 0, command.Usagef("connect: --nbd-timeout %d is not from 1 to 86400 seconds", timeout)
	}
	return time.Duration(timeout) * time.Second, nil
}

// openKernel opens the nbd driver.
func openKernel(opts initiator.Options, device deviceChoice, requestTimeout time.Duration) (*kernelDisks, error) {
	host, err := kernel.Open(opts.Logger)
	if err != nil {
		return nil, fmt.Errorf("--nbd-device: %w", err)
	}
	k := &kernelDisks{host: host, choice: device, requestTimeout: requestTimeout, lossTimeout: opts.LossTimeout, log: opts.Logger}
	if opts.NoReconnect {
		k.lossTimeout = 0
	}
	return k, nil
}
