package ibv

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"
)

// sockaddr is a struct sockaddr_storage. The zero value is no address.
type sockaddr [128]byte

// newSockaddr writes an address in the form of the socket interface.
func newSockaddr(ap netip.AddrPort) (sockaddr, error) {
	var s sockaddr
	addr := ap.Addr().Unmap()
	binary.BigEndian.PutUint16(s[2:], ap.Port())
	if addr.Is4() {
		binary.NativeEndian.PutUint16(s[:], unix.AF_INET)
		b := addr.As4()
		copy(s[4:], b[:])
		return s, nil
	}
	binary.NativeEndian.PutUint16(s[:], unix.AF_INET6)
	b := addr.As16()
	copy(s[8:], b[:])
	if zone := addr.Zone(); zone != "" {
		scope, err := scopeID(zone)
		if err != nil {
			return s, err
		}
		binary.NativeEndian.PutUint32(s[24:], scope)
	}
	return s, nil
}

// scopeID is the number of a zone, which is an interface's name or number.
func scopeID(zone string) (uint32, error) {
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), nil
	}
	i, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, fmt.Errorf("zone %q: %w", zone, err)
	}
	return uint32(i.Index), nil
}

// addrPort reads the address back; the zero AddrPort if there is none.
func (s *sockaddr) addrPort() netip.AddrPort {
	port := binary.BigEndian.Uint16(s[2:])
	switch binary.NativeEndian.Uint16(s[:]) {
	case unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(s[4:8])), port)
	case unix.AF_INET6:
		addr := netip.AddrFrom16([16]byte(s[8:24])).Unmap()
		if scope := binary.NativeEndian.Uint32(s[24:]); scope != 0 && addr.Is6() && addr.IsLinkLocalUnicast() {
			addr = addr.WithZone(zoneName(scope))
		}
		return netip.AddrPortFrom(addr, port)
	}
	return netip.AddrPort{}
}

func zoneName(scope uint32) string {
	if i, err := net.InterfaceByIndex(int(scope)); err == nil {
		return i.Name
	}
	return strconv.FormatUint(uint64(scope), 10)
}

// netAddr is the address for programs. RDMA CM has ports of its own, in the
// port space RDMA_PS_TCP.
func (s *sockaddr) netAddr() net.Addr { return net.TCPAddrFromAddrPort(s.addrPort()) }
