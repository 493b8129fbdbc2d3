package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	"rbd/cmd/internal/registry"
	"rbd/nbd"
	"rbd/nbd/kernel"
	"rbd/verbs"
)

// wanted is the disk that connect is to make: what a process must have so that a
// second one need not connect.
type wanted struct {
	nqn     string
	addr    verbs.Addr
	hostNQN string // empty: any
	device  deviceChoice
	sockets socketChoice
}

// connectedBy looks among living processes for the one that has the disk: as kernel
// devices if those are wanted, else on the sockets. If there is none, other is one
// that has the same name in the same place, but is something else, for the reason
// that the error tells.
func (w *wanted) connectedBy(ctx context.Context, list []registry.Entry) (e registry.Entry, found bool, other error) {
	for _, e := range list {
		if !e.Alive || e.NQN != w.nqn || !w.samePlace(ctx, e) {
			continue
		}
		err := w.difference(ctx, e)
		if err == nil {
			return e, true, nil
		}
		if other == nil {
			other = err
		}
	}
	return e, false, other
}

// samePlace says whether a process has its disks where they are wanted. A disk on a
// socket may be connected a second time, on another socket.
func (w *wanted) samePlace(ctx context.Context, e registry.Entry) bool {
	if w.device.wanted {
		return slices.ContainsFunc(e.Disks, func(d registry.Disk) bool { return d.Device != "" })
	}
	return slices.ContainsFunc(e.Disks, func(d registry.Disk) bool { return d.URI != "" }) && w.onSockets(ctx, e)
}

// difference is why the disks of a process with the same subsystem are not the ones
// that are wanted.
func (w *wanted) difference(ctx context.Context, e registry.Entry) error {
	switch {
	case !sameTarget(ctx, e.Address, w.addr):
		return fmt.Errorf("%s is connected from %s (pid %d), not from %s: run: rbd-initiator disconnect -n %s", w.nqn, e.Address, e.PID, w.addr, w.nqn)
	case w.hostNQN != "" && w.hostNQN != e.HostNQN:
		return fmt.Errorf("%s is connected as host %s (pid %d), not as %s: run: rbd-initiator disconnect -n %s", w.nqn, e.HostNQN, e.PID, w.hostNQN, w.nqn)
	case w.device.wanted && w.device.index != kernel.AnyDevice && !hasDevice(e, kernel.Device{Index: w.device.index}.Path()):
		return fmt.Errorf("%s is connected as %s (pid %d), not as %s", w.nqn, names(e.Disks), e.PID, kernel.Device{Index: w.device.index}.Path())
	case w.device.wanted && !w.onSockets(ctx, e):
		return fmt.Errorf("%s is connected as %s (pid %d), but not on the NBD socket that was asked for", w.nqn, names(e.Disks), e.PID)
	}
	return nil
}

// onSockets says whether a process listens where it is wanted, if that was said.
func (w *wanted) onSockets(ctx context.Context, e registry.Entry) bool {
	unix := func(d registry.Disk) bool { // of a process that does not tell where it listens
		return d.URI == nbd.URI(&net.UnixAddr{Name: w.sockets.path, Net: "unix"}, strconv.FormatUint(uint64(d.NSID), 10))
	}
	if w.sockets.path != "" && !slices.Contains(e.Listen, w.sockets.path) && !slices.ContainsFunc(e.Disks, unix) {
		return false
	}
	return w.sockets.tcp == "" || slices.ContainsFunc(e.Listen, func(have string) bool { return sameListener(ctx, have, w.sockets.tcp) })
}

// sameListener says whether have, the address of a socket, is what a listener on want
// gets. Port 0 is any.
func sameListener(ctx context.Context, have, want string) bool {
	haveHost, havePort, err := net.SplitHostPort(have)
	if err != nil {
		return false // a Unix socket
	}
	host, port, err := net.SplitHostPort(want)
	if err != nil || port != havePort && port != "0" {
		return false
	}
	if wildcard(host) {
		return wildcard(haveHost)
	}
	return sameHost(ctx, haveHost, host)
}

// wildcard says whether a listener on the host is one on all addresses.
func wildcard(host string) bool {
	return host == "" || net.ParseIP(host).IsUnspecified()
}

// sameTarget says whether two addresses lead to the same target. Parameters say how
// it is spoken to, not which one it is.
func sameTarget(ctx context.Context, recorded string, addr verbs.Addr) bool {
	have, err := verbs.ParseAddr(recorded, verbs.DefaultPort)
	return err == nil && have.Fabric == addr.Fabric && have.Port == addr.Port && sameHost(ctx, have.Host, addr.Host)
}

// sameHost says whether two names or addresses are, or resolve to, the same.
func sameHost(ctx context.Context, a, b string) bool {
	if a == b {
		return true
	}
	as, err := net.DefaultResolver.LookupHost(ctx, a)
	if err != nil {
		return false
	}
	bs, err := net.DefaultResolver.LookupHost(ctx, b)
	return err == nil && slices.ContainsFunc(as, func(ip string) bool { return slices.Contains(bs, ip) })
}
