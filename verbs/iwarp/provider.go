package iwarp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"rbd/verbs"
)

// Name is the scheme of this provider's addresses.
const Name = "iwarp"

// The times that a peer has for its part of the connection's beginning are
// those of Soft-iWARP.
const (
	requestTimeout = 5 * time.Second  // for an MPA request after the TCP connection
	replyTimeout   = 10 * time.Second // for an MPA reply after the request
	// lingerTime is how long the end of a connection waits for the peer to take
	// everything before the socket is closed.
	lingerTime = time.Second
	// maxPending bounds the handshakes in progress, and again the requests that
	// wait for GetRequest.
	maxPending = 128
)

// Provider is the software iWARP stack; it implements [verbs.Provider].
type Provider struct {
	dev  *device
	opts options
}

// Option changes a Provider.
type Option func(*options)

type options struct {
	requestTimeout, replyTimeout, lingerTime time.Duration
}

// WithTimeouts sets how long a peer may take for its MPA request and for its
// reply, 5 s and 10 s otherwise, and to take what is left for it at the end of a
// connection, 1 s otherwise.
func WithTimeouts(request, reply, linger time.Duration) Option {
	return func(o *options) { o.requestTimeout, o.replyTimeout, o.lingerTime = request, reply, linger }
}

// New makes a provider with one device, "iwarp0". Objects of different providers
// can't be mixed, but they can connect to each other.
func New(opts ...Option) *Provider {
	p := &Provider{opts: options{requestTimeout, replyTimeout, lingerTime}}
	for _, o := range opts {
		o(&p.opts)
	}
	p.dev = &device{opts: p.opts}
	return p
}

// Name is "iwarp".
func (p *Provider) Name() string { return Name }

// Devices lists the one device.
func (p *Provider) Devices() ([]verbs.Device, error) { return []verbs.Device{p.dev}, nil }

// ResolveAddr looks the host up and makes a CMID for it.
func (p *Provider) ResolveAddr(ctx context.Context, addr verbs.Addr) (verbs.CMID, error) {
	crc, err := addrParams(addr)
	if err != nil {
		return nil, err
	}
	host := addr.Host
	if host == "" {
		host = "localhost"
	}
	addrs, err := lookup(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", addr, err)
	}
	port, err := net.DefaultResolver.LookupPort(ctx, "tcp", addr.Port)
	if err != nil {
		return nil, fmt.Errorf("resolve %s: %w", addr, err)
	}
	c := newCMID(p.dev)
	c.crc, c.addr = crc, addr
	for _, a := range addrs {
		c.targets = append(c.targets, net.TCPAddrFromAddrPort(netip.AddrPortFrom(a, uint16(port))))
	}
	return c, nil
}

func lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs, nil
}

// hintFor is what may be wrong with an address that is nowhere.
func hintFor(addr verbs.Addr, err error) string {
	for _, e := range []error{unix.EADDRNOTAVAIL, unix.EHOSTUNREACH, unix.ENETUNREACH} {
		if errors.Is(err, e) {
			return addr.BracketHint()
		}
	}
	return ""
}

// CheckAddr refuses an address with parameters that this provider does not take.
func CheckAddr(addr verbs.Addr) error {
	_, err := addrParams(addr)
	return err
}

// addrParams reads the provider's own address parameters.
func addrParams(addr verbs.Addr) (crc bool, err error) {
	if addr.Fabric != Name {
		return false, fmt.Errorf("address %s: fabric %q is not %q: %w", addr, addr.Fabric, Name, verbs.ErrInvalid)
	}
	for key, values := range addr.Params {
		if key != "crc" {
			return false, fmt.Errorf("address %s: unknown parameter %q, known is crc=on|off: %w", addr, key, verbs.ErrInvalid)
		}
		if len(values) != 1 || values[0] != "on" && values[0] != "off" {
			return false, fmt.Errorf("address %s: crc is %q, expected on or off: %w", addr, values, verbs.ErrInvalid)
		}
		crc = values[0] == "on"
	}
	return crc, nil
}

var _ verbs.Provider = (*Provider)(nil)
