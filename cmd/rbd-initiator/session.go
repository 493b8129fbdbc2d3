package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"rbd/cmd/internal/registry"
	"rbd/initiator"
	"rbd/nbd"
)

// busyPoll is how often an end that was asked for while devices are in use is tried
// again.
const busyPoll = time.Second

// forceTime bounds the forced end of a device.
const forceTime = 10 * time.Second

// disconnectRequest is what another process asks for.
type disconnectRequest struct {
	registry.Disconnect
	answer chan<- disconnectAnswer // has room
}

type disconnectAnswer struct {
	ending bool
	err    error
}

// namespaceChanged is told by the controller. The loop looks at the sizes itself.
func (s *session) namespaceChanged(n initiator.NamespaceChange) {
	s.log.Info("namespace changed", "nsid", n.Namespace.NSID(), "change", n.Kind, "size", n.Namespace.Size())
	signalTo(s.changed)
}

// signalTo wakes the receiver of a channel that has room for one signal.
func signalTo(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// attachDevices attaches all namespaces and waits until udev has done with them.
func (s *session) attachDevices(ctx context.Context, server *nbd.Server) error {
	settler, err := newSettler(s.log)
	if err != nil {
		return err
	}
	defer settler.close()
	s.kernel.conns = len(s.ctrl.Queues())
	list, err := entries(ctx)
	if err != nil {
		return err
	}
	disks, err := s.kernel.attachAll(s.ctrl, server, s.exports(), list)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.disks = disks
	s.mu.Unlock()
	for _, d := range disks {
		go func() {
			<-d.attachment.Done()
			signalTo(s.gone)
		}()
	}
	for _, d := range disks {
		dev, err := d.attachment.Device()
		if err == nil {
			err = settler.settle(ctx, s.kernel.host, dev, d.settleTime)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// loop does what comes up until the session is to end: with nil when that was asked
// for.
func (s *session) loop(ctx context.Context, entry *registry.Server, served chan error) error {
	var retry <-chan time.Time // runs while an end waits for the users of devices
	told := ""
	stop := ctx.Done()
	for {
		select {
		case <-stop:
			stop = nil
			retry = time.After(0)
		case <-retry:
			err := s.detach(func(*kernelDisk) bool { return true })
			if err == nil {
				return nil
			}
			if text := err.Error(); text != told {
				s.log.Warn("not ended: " + text + "; it ends when nobody uses it, or by disconnect --force")
				told = text
			}
			retry = time.After(busyPoll)
		case <-s.ctrl.Lost():
			return fmt.Errorf("%s at %s: %w", s.ctrl.NQN(), s.ctrl.Addr(), s.ctrl.Err())
		case err := <-served:
			served <- nil // run counts one for each listener
			if len(s.attached()) == 0 {
				return err
			}
			if err != nil {
				s.log.Error("NBD is not served on a socket any more; the kernel devices go on", "err", err)
			}
			served = nil
		case <-s.changed:
			for _, d := range s.attached() {
				d.resize(s.log)
			}
			s.update(entry)
		case <-s.gone:
			if s.forgetDetached() {
				return nil
			}
			s.update(entry)
		case r := <-s.asked:
			ending, err := s.disconnect(r.Disconnect)
			r.answer <- disconnectAnswer{ending, err}
			if ending {
				return nil
			}
			s.update(entry)
		}
	}
}

// update renews what is known of this process when it is dead.
func (s *session) update(entry *registry.Server) {
	if entry == nil {
		return
	}
	if err := entry.Update(); err != nil {
		s.log.Warn("what is connected could not be noted", "err", err)
	}
}

// attached are the kernel devices there are now.
func (s *session) attached() []*kernelDisk {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.disks)
}

// forget takes a device off the list.
func (s *session) forget(d *kernelDisk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.disks = slices.DeleteFunc(s.disks, func(x *kernelDisk) bool { return x == d })
}

// detach detaches the chosen devices that nobody uses. The error is the first one.
func (s *session) detach(chosen func(*kernelDisk) bool) error {
	var first error
	for _, d := range s.attached() {
		if !chosen(d) {
			continue
		}
		told := s.waitingFor(func() string { return "until " + d.attachment.Path() + " is flushed and detached" })
		ctx, cancel := context.WithTimeout(context.Background(), detachTime)
		err := d.attachment.Detach(ctx)
		cancel()
		told()
		if err == nil {
			s.log.Info("device detached", "device", d.attachment.Path(), "nsid", d.nsid)
			s.forget(d)
		} else if first == nil {
			first = err
		}
	}
	return first
}

// slowEnd is how long a step of the end may take without a word.
const slowEnd = 2 * time.Second

// waitingFor says in the log what the end waits for, if it still does when that has
// taken long. The function that it returns is called when it does not any more.
func (s *session) waitingFor(what func() string) (done func() bool) {
	return time.AfterFunc(slowEnd, func() {
		s.log.Warn("ending: waiting "+what(), "nqn", s.ctrl.NQN(), "addr", s.ctrl.Addr(), "at_most", detachTime)
	}).Stop
}

// force detaches the chosen devices whoever uses them.
func (s *session) force(chosen func(*kernelDisk) bool) error {
	var all error
	for _, d := range s.attached() {
		if !chosen(d) {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), forceTime)
		err := d.attachment.ForceDetach(ctx)
		cancel()
		s.log.Warn("device detached by force: requests that were not done end with an I/O error", "device", d.attachment.Path(), "nsid", d.nsid)
		s.forget(d)
		all = errors.Join(all, err)
	}
	return all
}

// dropDevices ends or leaves behind what devices there are when the session ends
// with an error. Where the target is lost for good there is nothing to wait for.
func (s *session) dropDevices() error {
	select {
	case <-s.ctrl.Lost():
		return s.force(func(*kernelDisk) bool { return true })
	default:
	}
	for _, d := range s.attached() {
		d.giveUp(s.log)
		s.forget(d)
	}
	return nil
}

// forgetDetached takes such devices off the list, and says whether the session ends
// with them.
func (s *session) forgetDetached() bool {
	for _, d := range s.attached() {
		select {
		case <-d.attachment.Done():
			s.log.Warn("device is gone", "device", d.attachment.Path(), "nsid", d.nsid, "reason", d.attachment.Err())
			s.forget(d)
		default:
		}
	}
	return s.empty()
}

// empty says whether nothing is left to serve.
func (s *session) empty() bool { return len(s.attached()) == 0 && len(s.listeners) == 0 }

// disconnect does what another process asked for.
func (s *session) disconnect(r registry.Disconnect) (ending bool, err error) {
	chosen := func(d *kernelDisk) bool { return r.Device == "" || d.attachment.Path() == r.Device }
	if r.Device != "" && !slices.ContainsFunc(s.attached(), chosen) {
		return false, fmt.Errorf("%s is not a device of this process", r.Device)
	}
	clients := s.server.Clients()
	switch {
	case r.Force:
		err = s.force(chosen)
	case r.Device == "" && len(clients) > 0:
		return false, fmt.Errorf("%s is in use: %s; end that first, or use --force, which cuts the connection", s.ctrl.NQN(), describeClients(clients))
	default:
		err = s.detach(chosen)
	}
	return err == nil && (r.Device == "" || s.empty()), remedy(err)
}

// describeClients says who uses NBD sockets.
func describeClients(clients []nbd.Client) string {
	var b strings.Builder
	for i, c := range clients {
		if i == 8 {
			fmt.Fprintf(&b, "; and %d more", len(clients)-i)
			break
		}
		fmt.Fprintf(&b, "%s%s has NBD export %s open", []string{"", "; "}[min(i, 1)], c.Name, c.Export)
	}
	return b.String()
}

// Disconnect implements registry.Process. A session that is ending already does so
// for everybody who asks.
func (s *session) Disconnect(ctx context.Context, d registry.Disconnect) (bool, error) {
	answer := make(chan disconnectAnswer, 1)
	select {
	case s.asked <- disconnectRequest{d, answer}:
	case <-ctx.Done():
		return true, nil
	}
	select {
	case a := <-answer:
		return a.ending, a.err
	case <-ctx.Done():
		return true, nil
	}
}

// Record implements registry.Process.
func (s *session) Record() registry.Record {
	r := registry.Record{
		PID: os.Getpid(), NQN: s.ctrl.NQN(), Address: s.ctrl.Addr().String(), HostNQN: s.host.NQN,
		State: s.ctrl.State().String(), Since: s.since, Disks: []registry.Disk{},
	}
	for _, l := range s.listeners {
		r.Listen = append(r.Listen, l.Addr().String())
	}
	devices := make(map[uint32]*kernelDisk)
	for _, d := range s.attached() {
		devices[d.nsid] = d
	}
	for _, ns := range s.ctrl.Namespaces() {
		i := ns.Info()
		d := registry.Disk{NSID: i.NSID, Size: i.Size, BlockSize: i.BlockSize, UUID: i.UUID.String()}
		if k := devices[i.NSID]; k != nil {
			d.Device, d.Size, d.Connections = k.attachment.Path(), k.attachment.Size(), k.conns
		} else if len(s.listeners) > 0 {
			d.URI = nbd.URI(s.listeners[0].Addr(), strconv.FormatUint(uint64(i.NSID), 10))
		} else {
			continue // detached, or came later
		}
		r.Disks = append(r.Disks, d)
	}
	return r
}
