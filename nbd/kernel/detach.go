package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// probeTime is how long udev may look at a device that is to be detached.
	probeTime = 5 * time.Second
	probePoll = 50 * time.Millisecond
)

// Detach ends a device that nobody uses. If somebody does, the error is a
// *BusyError and nothing has changed.
func (a *Attachment) Detach(ctx context.Context) error {
	return a.host.claim(ctx, a.id(), func() error {
		a.end(nil)
		if err := a.host.disconnect(ctx, a.id()); err != nil {
			return err
		}
		return a.wait(ctx)
	})
}

// ForceDetach ends the device whoever uses it. Requests that the kernel still has
// end with EIO. It returns when they have, or with the error of ctx; the requests
// that this process still has in hand are not waited for.
func (a *Attachment) ForceDetach(ctx context.Context) error {
	a.end(nil)
	a.fence.cut() // so that no sender in the kernel waits for us
	a.fence.breakUp()
	return a.host.disconnect(ctx, a.id())
}

// Abandon leaves the device to the process that takes it over next: its connections
// are closed and not replaced. The kernel keeps what was not answered, for the
// dead-connection timeout.
func (a *Attachment) Abandon() {
	a.end(nil)
	a.fence.cut() // from now on no answer leaves, such as that this process ends
	a.fence.breakUp()
}

// wait waits until the connections have ended.
func (a *Attachment) wait(ctx context.Context) error {
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("detach %s: requests are still in hand: %w", a.Path(), ctx.Err())
	}
}

// Detach ends a device that a process has left behind, if nobody uses it.
func (h *Host) Detach(ctx context.Context, d Device) error {
	return h.claim(ctx, d, func() error { return h.disconnect(ctx, d) })
}

// ForceDetach ends a device that a process has left behind, whoever uses it.
func (h *Host) ForceDetach(ctx context.Context, d Device) error { return h.disconnect(ctx, d) }

// disconnect ends a device in the kernel.
func (h *Host) disconnect(ctx context.Context, d Device) error {
	if err := h.control.disconnect(ctx, d.Index); err != nil {
		return fmt.Errorf("detach %s: %w", d.Path(), permission(err))
	}
	return nil
}

// claim calls end while nobody else can begin to use the device in a way that
// claims it (mount, swap, device mapper), if nobody uses it now.
func (h *Host) claim(ctx context.Context, d Device, end func() error) error {
	if err := h.unused(ctx, d); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(h.Root, d.Path()), os.O_RDONLY|unix.O_EXCL, 0)
	if errors.Is(err, unix.EBUSY) {
		return &BusyError{Device: d, Users: []User{{What: d.Name(), How: "claimed by the kernel"}}}
	}
	if err != nil {
		return fmt.Errorf("detach %s: %w", d.Path(), err)
	}
	defer f.Close()
	// udev leaves a device alone that is locked.
	_ = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err := h.unused(ctx, d); err != nil {
		return err
	}
	return end()
}

// unused is nil when nobody uses the device, and a *BusyError otherwise.
func (h *Host) unused(ctx context.Context, d Device) error {
	users, err := h.settledUsers(ctx, d)
	if err != nil {
		return fmt.Errorf("detach %s: %w", d.Path(), err)
	}
	if len(users) > 0 {
		return &BusyError{Device: d, Users: users}
	}
	return nil
}

// settledUsers are the users of a device after udev has had time to finish.
func (h *Host) settledUsers(ctx context.Context, d Device) ([]User, error) {
	limit := time.Now().Add(probeTime)
	for {
		users, err := h.Users(d)
		if err != nil {
			return nil, err
		}
		lasting := slices.ContainsFunc(users, func(u User) bool { return !u.Transient })
		if len(users) == 0 || lasting || time.Now().After(limit) || ctx.Err() != nil {
			return users, nil
		}
		time.Sleep(probePoll)
	}
}
