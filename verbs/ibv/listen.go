package ibv

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"

	"rbd/verbs"
)

// Listen accepts connections on an address of an RDMA device, or on all of them if
// the host is empty.
func (p *Provider) Listen(ctx context.Context, addr verbs.Addr) (verbs.Listener, error) {
	o, err := parseParams(addr)
	if err != nil {
		return nil, err
	}
	if err := p.open(); err != nil {
		return nil, fmt.Errorf("%s: %w", addr, err)
	}
	port, err := strconv.ParseUint(addr.Port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: port: %w", addr, verbs.ErrInvalid)
	}
	hosts, err := p.listenAddresses(ctx, o, addr)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	var errs []error
	for _, h := range hosts {
		l, err := p.listenOn(addr, o, h, uint16(port))
		if err == nil {
			return l, nil
		}
		errs = append(errs, err)
		if errors.Is(err, unix.EADDRINUSE) {
			break
		}
	}
	return nil, fmt.Errorf("listen on %s: %w", addr, errors.Join(errs...))
}

// listenAddresses are the addresses to try, the first ones first; those of one
// entry are listened on together.
func (p *Provider) listenAddresses(ctx context.Context, o params, addr verbs.Addr) ([][]netip.Addr, error) {
	var list []netip.Addr
	var err error
	switch {
	case addr.Host != "":
		list, err = lookup(ctx, addr.Host)
	case o.device != "" || o.gidIndex >= 0:
		list, err = p.ownAddresses(o)
	default:
		// siw does not take IPv4 on the wildcard of IPv6.
		return [][]netip.Addr{{netip.IPv4Unspecified(), netip.IPv6Unspecified()}, {netip.IPv4Unspecified()}, {netip.IPv6Unspecified()}}, nil
	}
	var each [][]netip.Addr
	for _, a := range list {
		each = append(each, []netip.Addr{a})
	}
	return each, err
}

func (p *Provider) listenOn(addr verbs.Addr, o params, hosts []netip.Addr, port uint16) (*listener, error) {
	l := &listener{p: p, handle: p.nextHandle(), params: o, addr: addr, requests: make(chan *cmid, maxPending), closed: make(chan struct{})}
	for _, h := range hosts {
		l.at = append(l.at, netip.AddrPortFrom(h, port))
	}
	p.register(l.handle, l)
	if err := l.listen(); err != nil {
		p.unregister(l.handle)
		return nil, err
	}
	l.addr.Port = strconv.Itoa(int(l.at[0].Port()))
	if l.addr.Host == "" && !hosts[0].IsUnspecified() {
		l.addr.Host = hosts[0].String()
	}
	return l, nil
}

// listen makes an rdma_cm_id for each address, all with the port of the first.
func (l *listener) listen() error {
	var ids []uintptr
	for i := range l.at {
		id, err := l.p.lib.createID(l.p.channel, l.handle)
		if err == nil {
			ids = append(ids, id)
			var port uint16
			if port, err = l.bind(id, l.at[i]); err == nil {
				for j := range l.at {
					l.at[j] = netip.AddrPortFrom(l.at[j].Addr(), port)
				}
			}
		}
		if err != nil {
			for _, id := range ids {
				err = errors.Join(err, l.p.lib.destroyID(id))
			}
			return err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids = ids
	return nil
}

// bind lets id listen on the address, and returns the port that was taken.
func (l *listener) bind(id uintptr, at netip.AddrPort) (uint16, error) {
	lib := l.p.lib
	if err := lib.setAFOnly(id); err != nil && at.Addr().Is6() {
		return 0, wrap("listen on IPv6 alone", err)
	}
	if l.params.tos >= 0 {
		if err := lib.setTOS(id, uint8(l.params.tos)); err != nil {
			return 0, wrap("set the type of service", err)
		}
	}
	s, err := newSockaddr(at)
	if err != nil {
		return 0, err
	}
	if err := lib.bind(id, s); err != nil {
		return 0, explainBind(at.Addr(), err)
	}
	if info := lib.queryID(id); l.params.device != "" && info.context != 0 {
		d, err := l.p.device(info.context)
		if err != nil {
			return 0, err
		}
		if d.name != l.params.device {
			return 0, fmt.Errorf("%s is an address of device %s, not %s: %w", at.Addr(), d.name, l.params.device, verbs.ErrInvalid)
		}
	}
	if err := lib.listen(id, maxPending); err != nil {
		return 0, explainBind(at.Addr(), err)
	}
	info := lib.queryID(id)
	return info.src.addrPort().Port(), nil
}

// explainBind says what is usually behind an error of binding.
func explainBind(addr netip.Addr, err error) error {
	switch {
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("no RDMA device has the address %s; `rbd-target devices` lists the devices and their addresses, "+
			"and loopback addresses have none: %w", addr, err)
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("another program, or another listener of this one, has the port: %w", err)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("ports below 1024 are for root: %w", err)
	}
	return err
}
