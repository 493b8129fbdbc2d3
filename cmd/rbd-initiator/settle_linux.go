package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/google/uuid"

	"rbd/cmd/internal/uevent"
	"rbd/nbd/kernel"
)

// settleTime bounds the wait for udev.
const settleTime = 20 * time.Second

// settler waits until udev has done with new devices. It listens from before they
// are attached.
type settler struct {
	udev uevent.Watcher // nil where udev does not run, or can't be heard
	log  *slog.Logger
}

func newSettler(host *kernel.Host, log *slog.Logger) (*settler, error) {
	s := &settler{log: log}
	if _, err := os.Stat("/run/udev/control"); err != nil || !host.HasNetlink() {
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
// returns when they have.
func (s *settler) settle(ctx context.Context, host *kernel.Host, d kernel.Device) error {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
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
	if s.udev == nil {
		return nil
	}
	mark := uuid.NewString()
	if err := host.Announce(d, mark); err != nil {
		return err
	}
	for {
		e, err := s.udev.Next(ctx)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			s.log.Warn("udev has not done with the device in time; going on without", "device", d.Path(), "waited", settleTime)
			return nil
		case errors.Is(err, uevent.ErrOverrun):
			continue
		case err != nil:
			return err
		case e.Env["SYNTH_UUID"] == mark:
			return nil
		}
	}
}
