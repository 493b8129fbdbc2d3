package ibv

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"rbd/verbs"
)

// resolveTime is how long the resolution of an address, and of a route, may take.
const resolveTime = 3 * time.Second

// ResolveAddr looks the host up, and makes a CMID on the device that reaches it.
func (p *Provider) ResolveAddr(ctx context.Context, addr verbs.Addr) (verbs.CMID, error) {
	o, err := parseParams(addr)
	if err != nil {
		return nil, err
	}
	if err := p.open(); err != nil {
		return nil, fmt.Errorf("%s: %w", addr, err)
	}
	port, err := strconv.ParseUint(addr.Port, 10, 16)
	if err != nil || addr.Host == "" {
		return nil, fmt.Errorf("resolve %s: host or port is missing: %w", addr, verbs.ErrInvalid)
	}
	hosts, err := lookup(ctx, addr.Host)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", addr, err)
	}
	var errs []error
	for _, h := range hosts {
		sources, err := p.sources(o, h)
		if err != nil {
			return nil, fmt.Errorf("resolve %s: %w", addr, err)
		}
		for _, src := range sources {
			c, err := p.resolve(ctx, o, src, netip.AddrPortFrom(h, uint16(port)))
			if err == nil {
				return c, nil
			}
			if ctx.Err() != nil {
				return nil, fmt.Errorf("resolve %s: %w", addr, err)
			}
			errs = append(errs, err)
		}
	}
	return nil, fmt.Errorf("resolve %s: %w", addr, errors.Join(errs...))
}

func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a.Unmap()}, nil
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs, err
}

// sources are the own addresses to try for a peer. Without parameters it is one
// that is not valid: the routing table chooses.
func (p *Provider) sources(o params, peer netip.Addr) ([]netip.Addr, error) {
	if o.device == "" && o.gidIndex < 0 {
		return []netip.Addr{{}}, nil
	}
	list, err := p.ownAddresses(o)
	if err != nil {
		return nil, err
	}
	fit := slices.DeleteFunc(list, func(a netip.Addr) bool { return a.Is4() != peer.Is4() })
	if len(fit) == 0 {
		return nil, fmt.Errorf("%s has no address of the kind of %s; `rbd-target devices` lists what it has", o, peer)
	}
	return fit, nil
}

// String names what the parameters choose.
func (o params) String() string {
	var s []string
	if o.device != "" {
		s = append(s, "device "+o.device)
	}
	if o.gidIndex >= 0 {
		s = append(s, fmt.Sprintf("GID %d", o.gidIndex))
	}
	return strings.Join(s, ", ")
}

// ownAddresses are those of the device, or of the GID, that the parameters name.
func (p *Provider) ownAddresses(o params) ([]netip.Addr, error) {
	names := p.system.deviceNames()
	if o.device != "" {
		if !slices.Contains(names, o.device) {
			return nil, fmt.Errorf("there is no RDMA device %q, only: %s: %w", o.device, strings.Join(names, ", "), verbs.ErrInvalid)
		}
		names = []string{o.device}
	}
	var list []netip.Addr
	for _, name := range names {
		ports := p.system.ports(name)
		if o.gidIndex < 0 {
			if err := onlyRoCEv1(name, ports); err != nil {
				return nil, err
			}
			list = append(list, addresses(ports, interfaceAddresses)...)
			continue
		}
		a, err := gidAddress(name, ports, o.gidIndex)
		if err != nil && o.device != "" {
			return nil, err
		}
		if err == nil {
			list = append(list, a)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s has no address; give its interface one: ip addr add ADDRESS/PREFIX dev NETDEV", o)
	}
	return list, nil
}

// gidAddress is the address of a device's GID, which must be one of RoCE v2.
func gidAddress(name string, ports []Port, index int) (netip.Addr, error) {
	for _, p := range ports {
		for _, g := range p.GIDs {
			switch {
			case g.Index != index:
			case p.LinkLayer != "Ethernet":
				return netip.Addr{}, fmt.Errorf("device %s: gid-index= is for RoCE, its port %d is %s: %w", name, p.Number, p.LinkLayer, verbs.ErrInvalid)
			case g.Type == typeRoCEv1:
				return netip.Addr{}, fmt.Errorf("device %s: GID %d (%s) is of RoCE v1, which is not routed; choose one of RoCE v2: %w",
					name, index, g.Addr, verbs.ErrInvalid)
			default:
				return zoned(g.Addr, g.NetDev), nil
			}
		}
	}
	return netip.Addr{}, fmt.Errorf("device %s has no GID %d; `rbd-target devices` lists those it has: %w", name, index, verbs.ErrInvalid)
}

// onlyRoCEv1 is an error if an Ethernet port has GIDs, but none of RoCE v2.
func onlyRoCEv1(name string, ports []Port) error {
	for _, p := range ports {
		v1 := false
		for _, g := range p.GIDs {
			if g.Type == typeRoCEv2 || g.Type == "" {
				return nil
			}
			v1 = v1 || g.Type == typeRoCEv1
		}
		if v1 && p.LinkLayer == "Ethernet" {
			return fmt.Errorf("device %s has only GIDs of RoCE v1, which is not routed; turn RoCE v2 on in the adapter's driver or firmware: %w",
				name, verbs.ErrNotSupported)
		}
	}
	return nil
}

// resolve makes a CMID for one address of the peer.
func (p *Provider) resolve(ctx context.Context, o params, src netip.Addr, dst netip.AddrPort) (*cmid, error) {
	c := p.newCMID()
	var err error
	if c.id, err = p.lib.createID(p.channel, c.handle); err != nil {
		return nil, wrap("connection identifier", err)
	}
	p.register(c.handle, c)
	if err := c.resolve(ctx, o, src, dst); err != nil {
		return nil, errors.Join(err, c.Destroy())
	}
	return c, nil
}

func (c *cmid) resolve(ctx context.Context, o params, src netip.Addr, dst netip.AddrPort) error {
	to, err := newSockaddr(dst)
	if err != nil {
		return err
	}
	var from sockaddr
	if src.IsValid() {
		if from, err = newSockaddr(netip.AddrPortFrom(src, 0)); err != nil {
			return err
		}
	}
	if o.tos >= 0 {
		if err := c.p.lib.setTOS(c.id, uint8(o.tos)); err != nil {
			return wrap("set the type of service", err)
		}
	}
	timeout := int(resolveTime / time.Millisecond)
	if err := c.p.lib.resolveAddr(c.id, from, to, timeout); err != nil {
		return explainResolve(dst, src, err)
	}
	if err := c.awaitEvent(ctx, cmAddrResolved); err != nil {
		return explainResolve(dst, src, err)
	}
	info, err := c.learn()
	if err != nil {
		return err
	}
	if o.device != "" && c.dev.name != o.device {
		return fmt.Errorf("%s is reached by device %s, not %s: %w", dst.Addr(), c.dev.name, o.device, verbs.ErrInvalid)
	}
	if err := c.checkGID(&info); err != nil {
		return err
	}
	if err := c.p.lib.resolveRoute(c.id, timeout); err != nil {
		return explainResolve(dst, src, err)
	}
	if err := c.awaitEvent(ctx, cmRouteResolved); err != nil {
		return explainResolve(dst, src, err)
	}
	_, err = c.learn()
	return err
}

// checkGID refuses a port whose GIDs are of RoCE v1.
func (c *cmid) checkGID(info *idInfo) error {
	if c.dev.iwarp {
		return nil
	}
	ports := c.p.system.ports(c.dev.name)
	ports = slices.DeleteFunc(ports, func(p Port) bool { return p.Number != info.port })
	return onlyRoCEv1(c.dev.name, ports)
}

// awaitEvent waits for an event of the resolution.
func (c *cmid) awaitEvent(ctx context.Context, want cmEventType) error {
	select {
	case e := <-c.answer:
		if e.event == want {
			return nil
		}
		return statusError(e.status)
	case <-c.disconnected:
		return c.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// explainResolve says what is usually behind an error of resolving.
func explainResolve(dst netip.AddrPort, src netip.Addr, err error) error {
	var hint string
	switch {
	case errors.Is(err, unix.ENODEV):
		hint = fmt.Sprintf("no RDMA device is on the way to %s; `rbd-target devices` lists the devices and their addresses, "+
			"and loopback addresses have none", dst.Addr())
	case errors.Is(err, unix.EADDRNOTAVAIL) && src.IsValid():
		hint = fmt.Sprintf("%s is not an address of a device that reaches it", src)
	case errors.Is(err, unix.ENETUNREACH), errors.Is(err, unix.EHOSTUNREACH):
		hint = fmt.Sprintf("there is no route to %s", dst.Addr())
	case errors.Is(err, unix.ETIMEDOUT):
		hint = fmt.Sprintf("%s does not answer on the network (ARP or neighbour discovery)", dst.Addr())
	default:
		return err
	}
	return fmt.Errorf("%s: %w", hint, err)
}
