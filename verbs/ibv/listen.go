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
		l, err := p.listenOn(addr, o, netip.AddrPortFrom(h, uint16(port)))
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

// listenAddresses are the addresses to try, the first one first.
func (p *Provider) listenAddresses(ctx context.Context, o params, addr verbs.Addr) ([]netip.Addr, error) {
	switch {
	case addr.Host != "":
		return lookup(ctx, addr.Host)
	case o.device != "" || o.gidIndex >= 0:
		return p.ownAddresses(o)
	}
	// Where there is IPv6, its wildcard takes IPv4 as well.
	return []netip.Addr{netip.IPv6Unspecified(), netip.IPv4Unspecified()}, nil
}

func (p *Provider) listenOn(addr verbs.Addr, o params, at netip.AddrPort) (*listener, error) {
	l := &listener{p: p, handle: p.nextHandle(), addr: addr, requests: make(chan *cmid, maxPending), closed: make(chan struct{})}
	var err error
	if l.id, err = p.lib.createID(p.channel, l.handle); err != nil {
		return nil, wrap("connection identifier", err)
	}
	p.register(l.handle, l)
	if err := l.listen(o, at); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *listener) listen(o params, at netip.AddrPort) error {
	lib := l.p.lib
	if o.tos >= 0 {
		if err := lib.setTOS(l.id, uint8(o.tos)); err != nil {
			return wrap("set the type of service", err)
		}
	}
	s, err := newSockaddr(at)
	if err != nil {
		return err
	}
	if err := lib.bind(l.id, s); err != nil {
		return explainBind(at.Addr(), err)
	}
	info := lib.queryID(l.id)
	if o.device != "" && info.context != 0 {
		d, err := l.p.device(info.context)
		if err != nil {
			return err
		}
		if d.name != o.device {
			return fmt.Errorf("%s is an address of device %s, not %s: %w", at.Addr(), d.name, o.device, verbs.ErrInvalid)
		}
	}
	if err := lib.listen(l.id, maxPending); err != nil {
		return explainBind(at.Addr(), err)
	}
	info = lib.queryID(l.id)
	l.addr.Port = strconv.Itoa(int(info.src.addrPort().Port()))
	if l.addr.Host == "" && !at.Addr().IsUnspecified() {
		l.addr.Host = at.Addr().String()
	}
	return nil
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
