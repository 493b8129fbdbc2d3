package verbs

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// DefaultPort is the port that IANA assigned to NVMe over Fabrics on RDMA.
const DefaultPort = "4420"

// DefaultFabric is the provider meant by an address without a scheme.
const DefaultFabric = "iwarp"

// Addr is a fabric address: FABRIC://HOST:PORT?key=value. Host is a name or an
// IP address, IPv6 with or without zone and without brackets; it may be empty
// for a listener on all addresses.
type Addr struct {
	Fabric string
	Host   string
	Port   string
	// Params are the provider's own settings; it refuses those it does not know.
	Params url.Values
}

// ParseAddr reads an address. The scheme defaults to [DefaultFabric] and the
// port to defaultPort; a bare IPv6 address needs brackets only if a port follows.
func ParseAddr(s, defaultPort string) (Addr, error) {
	a := Addr{Fabric: DefaultFabric}
	rest, query, hasQuery := strings.Cut(s, "?")
	if scheme, r, ok := strings.Cut(rest, "://"); ok {
		if scheme == "" {
			return Addr{}, fmt.Errorf("address %q: empty fabric before ://", s)
		}
		a.Fabric, rest = scheme, r
	}
	if hasQuery {
		params, err := url.ParseQuery(query)
		if err != nil {
			return Addr{}, fmt.Errorf("address %q: parameters: %w", s, err)
		}
		a.Params = params
	}
	host, port, err := splitHostPort(strings.TrimSuffix(rest, "/"), defaultPort)
	if err != nil {
		return Addr{}, fmt.Errorf("address %q: %w", s, err)
	}
	if err := checkHost(host); err != nil {
		return Addr{}, fmt.Errorf("address %q: %w", s, err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return Addr{}, fmt.Errorf("address %q: port %q is not a number from 0 to 65535", s, port)
	}
	a.Host, a.Port = host, strconv.FormatUint(n, 10)
	return a, nil
}

func splitHostPort(s, defaultPort string) (host, port string, err error) {
	switch {
	case strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]"):
		return s[1 : len(s)-1], defaultPort, nil
	case strings.Count(s, ":") > 1 && !strings.HasPrefix(s, "["):
		return s, defaultPort, nil // a bare IPv6 address
	case !strings.Contains(s, ":"):
		return s, defaultPort, nil
	}
	host, port, err = net.SplitHostPort(s)
	if err != nil {
		return "", "", fmt.Errorf("host and port: %w", err)
	}
	if port == "" {
		port = defaultPort
	}
	return host, port, nil
}

// checkHost refuses what is neither an IP address nor can be a name, so that a
// mistake is not looked up in the DNS.
func checkHost(host string) error {
	if strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || strings.ContainsRune("[]/@\\\"", r) }) {
		return fmt.Errorf("host %q is not a name or address", host)
	}
	if strings.Contains(host, ":") {
		if _, err := netip.ParseAddr(host); err != nil {
			return fmt.Errorf("host %q is not an IPv6 address (with a port it has brackets: [::1]:%s)", host, DefaultPort)
		}
	}
	return nil
}

// HostPort is HOST:PORT with brackets where IPv6 needs them.
func (a Addr) HostPort() string { return net.JoinHostPort(a.Host, a.Port) }

// String is the address in the form that ParseAddr reads.
func (a Addr) String() string {
	s := a.Fabric + "://" + a.HostPort()
	if len(a.Params) > 0 {
		s += "?" + a.Params.Encode()
	}
	return s
}

// BracketHint is what to add to the error of an address that is not there: an IPv6
// address with a port behind it, but without brackets, is another address. It is empty
// for an address that can't have been meant so.
func (a Addr) BracketHint() string {
	i := strings.LastIndexByte(a.Host, ':')
	if i < 0 {
		return ""
	}
	host, port := a.Host[:i], a.Host[i+1:]
	_, noPort := strconv.ParseUint(port, 10, 16)
	if _, noHost := netip.ParseAddr(host); noHost != nil || noPort != nil {
		return ""
	}
	return fmt.Sprintf("; port %s of %s is [%s]:%s", port, host, host, port)
}
