package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/google/uuid"

	"rbd/cmd/internal/uevent"
	"rbd/nbd/kernel"
)

// settleTime bounds the wait for a new device: the kernel looks for partitions, and
// udev at what it has found.
const settleTime = 20 * time.Second

// udevDelay is how long udev may take to notice an event, where it can't be heard.
const udevDelay = 200 * time.Millisecond

// settler waits until udev has done with new devices. It listens from before they
// are attached. In another network namespace udev can't be heard: there its queue is
// looked at, as `udevadm settle` does.
type settler struct {
	runs bool           // udev runs
	udev uevent.Watcher // nil where it can't be heard
	log  *slog.Logger
}

func newSettler(log *slog.Logger) (*settler, error) {
	s := &settler{log: log}
	if _, err := os.Stat("/run/udev/control"); err != nil {
		return s, nil
	}
	s.runs = true
	mine, err := os.Readlink("/proc/self/ns/net")
	first, ferr := os.Readlink("/proc/1/ns/net")
	if err != nil || ferr != nil || mine != first {
		return s, nil
	}
	w, err := uevent.Watch(uevent.Udev)
	if err != nil {
		return nil, err
	}
	s.udev = w
	return s, nil
}

func (s *settler) close() {
	if s.udev != nil {
		s.udev.Close()
	}
}

// settle makes the kernel look for partitions, and udev at the device and them. It
// returns when they have. The kernel must have in the given time; udev is not waited
// for any longer then.
func (s *settler) settle(ctx context.Context, host *kernel.Host, d kernel.Device, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	scanned := make(chan error, 1)
	go func() { scanned <- host.ScanPartitions(d) }() // it reads from the disk
	select {
	case err := <-scanned:
		if err != nil {
			return err
		}
	case <-ctx.Done():
		return fmt.Errorf("look for partitions of %s: %w", d.Path(), ctx.Err())
	}
	if !s.runs {
		return nil
	}
	mark := uuid.NewString()
	if err := host.Announce(d, mark); err != nil {
		return err
	}
	err := s.wait(ctx, mark)
	if errors.Is(err, context.DeadlineExceeded) {
		s.log.Warn("udev has not done with the device in time; going on without", "device", d.Path(), "waited", within)
		return nil
	}
	if err != nil {
		return fmt.Errorf("wait for udev to look at %s: %w", d.Path(), err)
	}
	return nil
}

// wait waits until udev has done with the event that has the mark.
func (s *settler) wait(ctx context.Context, mark string) error {
	if s.udev == nil {
		return waitQueue(ctx)
	}
	for {
		e, err := s.udev.Next(ctx)
		switch {
		case errors.Is(err, uevent.ErrOverrun):
			continue
		case err != nil:
			return err
		case e.Env["SYNTH_UUID"] == mark:
			return nil
		}
	}
}

// waitQueue waits until udev has nothing to do.
func waitQueue(ctx context.Context) error {
	for pause := udevDelay; ; pause = udevDelay / 10 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
		if _, err := os.Stat("/run/udev/queue"); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
}
