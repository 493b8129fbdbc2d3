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
	l := &listener{p: p, handle: p.nextHandle(), params: o, at: at, addr: addr, requests: make(chan *cmid, maxPending), closed: make(chan struct{})}
	p.register(l.handle, l)
	if err := l.listen(); err != nil {
		p.unregister(l.handle)
		return nil, err
	}
	l.addr.Port = strconv.Itoa(int(l.at.Port()))
	if l.addr.Host == "" && !at.Addr().IsUnspecified() {
		l.addr.Host = at.Addr().String()
	}
	return l, nil
}

// listen makes an rdma_cm_id that listens.
func (l *listener) listen() error {
	id, err := l.p.lib.createID(l.p.channel, l.handle)
	if err != nil {
		return wrap("connection identifier", err)
	}
	port, err := l.bind(id)
	if err != nil {
		return errors.Join(err, l.p.lib.destroyID(id))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.id, l.at = id, netip.AddrPortFrom(l.at.Addr(), port)
	return nil
}

// bind lets id listen on the address, and returns the port that was taken.
func (l *listener) bind(id uintptr) (uint16, error) {
	lib := l.p.lib
	if l.params.tos >= 0 {
		if err := lib.setTOS(id, uint8(l.params.tos)); err != nil {
			return 0, wrap("set the type of service", err)
		}
	}
	s, err := newSockaddr(l.at)
	if err != nil {
		return 0, err
	}
	if err := lib.bind(id, s); err != nil {
		return 0, explainBind(l.at.Addr(), err)
	}
	if info := lib.queryID(id); l.params.device != "" && info.context != 0 {
		d, err := l.p.device(info.context)
		if err != nil {
			return 0, err
		}
		if d.name != l.params.device {
			return 0, fmt.Errorf("%s is an address of device %s, not %s: %w", l.at.Addr(), d.name, l.params.device, verbs.ErrInvalid)
		}
	}
	if err := lib.listen(id, maxPending); err != nil {
		return 0, explainBind(l.at.Addr(), err)
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
