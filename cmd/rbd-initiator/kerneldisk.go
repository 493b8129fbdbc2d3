package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"rbd/cmd/internal/command"
	"rbd/cmd/internal/registry"
	"rbd/initiator"
	"rbd/nbd"
	"rbd/nbd/kernel"
)

// deadConnMargin is how much longer than the controller-loss time the kernel keeps
// requests while nobody serves the device: a new process needs time to start.
const deadConnMargin = 60 * time.Second

// deviceChoice is what --nbd-device says.
type deviceChoice struct {
	wanted bool
	index  int // kernel.AnyDevice for auto
}

func parseDevice(text string) (d deviceChoice, err error) {
	switch text {
	case "":
		return d, nil
	case "auto":
		return deviceChoice{wanted: true, index: kernel.AnyDevice}, nil
	}
	index, err := kernel.ParsePath(text)
	if err != nil {
		return d, command.Usagef("connect: --nbd-device %q is neither auto nor /dev/nbdN", text)
	}
	return deviceChoice{wanted: true, index: index}, nil
}

// identifier marks a kernel device as a remote disk. It is the device's name below
// /dev/disk/by-id.
func identifier(nqn string, nsid uint32) string {
	return fmt.Sprintf("%s%s-%d", identifierPrefix, escapeNQN(nqn), nsid)
}

// escapeNQN writes what a file name or udev can't have as \xNN.
func escapeNQN(nqn string) string {
	var b strings.Builder
	for _, c := range []byte(nqn) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("-._:+=@", c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String()
}

// identifierPrefix begins the identifiers of all our devices.
const identifierPrefix = "rbd-"

// kernelDisk is a namespace with its kernel device.
type kernelDisk struct {
	nsid       uint32
	ns         *initiator.Namespace
	attachment *kernel.Attachment
	conns      int
	// settleTime bounds the wait for the kernel's look for partitions, and for udev.
	settleTime time.Duration
}

// kernelDisks attaches namespaces to kernel devices.
type kernelDisks struct {
	host   *kernel.Host
	choice deviceChoice
	// requestTimeout and lossTimeout bound waiting: for one answer, and for the
	// target; the latter is negative for ever.
	requestTimeout, lossTimeout time.Duration
	conns                       int // connections of one device
	log                         *slog.Logger
}

// options are those of one device.
func (k *kernelDisks) options(id string) kernel.Options {
	dead := k.lossTimeout + deadConnMargin
	if k.lossTimeout < 0 {
		dead = 1<<63 - 1 // as long as the kernel can
	}
	return kernel.Options{
		Index: k.choice.index, Identifier: id, Connections: k.conns, RequestTimeout: k.requestTimeout, DeadConnTimeout: dead,
	}
}

// attachAll attaches each namespace, or none. The entries tell what dead processes
// had.
func (k *kernelDisks) attachAll(ctrl *initiator.Controller, server *nbd.Server, exports []nbd.Export, before []registry.Entry) (disks []*kernelDisk, err error) {
	list := ctrl.Namespaces()
	if len(list) > 1 && k.choice.index != kernel.AnyDevice {
		return nil, fmt.Errorf("%s has %d namespaces, and --nbd-device %s is one device: use auto", ctrl.NQN(), len(list), kernel.Device{Index: k.choice.index}.Path())
	}
	defer func() {
		if err == nil {
			return
		}
		for _, d := range disks {
			d.giveUp(k.log)
		}
		disks = nil
	}()
	for i, ns := range list {
		d, err := k.attach(server, exports[i], ctrl.NQN(), ns, before)
		if err != nil {
			return disks, err
		}
		disks = append(disks, d)
	}
	return disks, nil
}

// attach attaches one namespace. A device that a dead process has left behind with
// the same disk is taken over.
func (k *kernelDisks) attach(server *nbd.Server, e nbd.Export, nqn string, ns *initiator.Namespace, before []registry.Entry) (*kernelDisk, error) {
	d := &kernelDisk{nsid: ns.NSID(), ns: ns, conns: k.conns, settleTime: settleTime}
	id := identifier(nqn, ns.NSID())
	left, found, err := k.host.Find(id)
	if err != nil {
		return nil, err
	}
	if !found {
		d.attachment, err = k.host.Attach(server, e, k.options(id))
		return d, err
	}
	detach := "rbd-initiator disconnect -d " + left.Path()
	if k.choice.index != kernel.AnyDevice && k.choice.index != left.Index {
		return nil, fmt.Errorf("a process that has died left this disk as %s, which is not %s: use auto to take it over, or run: %s",
			left.Path(), kernel.Device{Index: k.choice.index}.Path(), detach)
	}
	uuid := ns.Info().UUID.String()
	for _, e := range before {
		for _, d := range e.Disks {
			if !e.Alive && d.Device == left.Path() && d.UUID != uuid {
				return nil, fmt.Errorf("a process that has died left %s behind, which was another disk under the same name (UUID %s, now %s): run: %s",
					left.Path(), d.UUID, uuid, detach)
			}
		}
	}
	k.log.Info("taking over the device of a process that has died", "device", left.Path(), "disk", id)
	d.attachment, err = k.host.TakeOver(server, e, left, k.options(id))
	// Somebody may be looking for partitions already, whose read the dead process has
	// not answered: the kernel sends it again when its time is over.
	d.settleTime += k.requestTimeout
	return d, err
}

// giveUp ends what nobody uses. A device that is in use is left behind: it waits for
// the process that takes it over.
func (d *kernelDisk) giveUp(log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), detachTime)
	defer cancel()
	if err := d.attachment.Detach(ctx); err != nil {
		d.attachment.Abandon()
		log.Warn("device left behind: connect again to take it over", "device", d.attachment.Path(), "nsid", d.nsid, "reason", err)
	}
}

// resize gives the device the size that its namespace has now. What it refuses is
// logged: the device stays as it is.
func (d *kernelDisk) resize(log *slog.Logger) {
	size, old := d.ns.Size(), d.attachment.Size()
	if size == old {
		return
	}
	if err := d.attachment.Resize(size); err != nil {
		log.Error("the namespace has another size, and its device keeps the old one", "device", d.attachment.Path(),
			"nsid", d.nsid, "namespace", size, "device_size", old, "err", err)
		return
	}
	log.Info("device resized", "device", d.attachment.Path(), "nsid", d.nsid, "from", old, "to", size)
}
