package ibv

import (
	"cmp"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Port is a port of a device, as the kernel shows it in sysfs.
type Port struct {
	Number int
	// State is that of ibv_port_state in words: ACTIVE, DOWN, INIT, ARMED.
	State string
	// LinkLayer is InfiniBand or Ethernet.
	LinkLayer string
	Rate      string
	// MTU is that of RDMA packets in bytes; 0 where the device does not tell.
	MTU int
	// NetDevs are the network interfaces of the port.
	NetDevs []string
	GIDs    []GID
}

// GID is an entry of a port's GID table.
type GID struct {
	Index int
	// Addr is the GID as an address; those of RoCE are addresses of NetDev.
	Addr netip.Addr
	// Type is "IB/RoCE v1" or "RoCE v2"; the former is also that of InfiniBand.
	Type   string
	NetDev string
}

const (
	typeRoCEv1 = "IB/RoCE v1"
	typeRoCEv2 = "RoCE v2"
)

// ports reads the ports of a device.
func (s system) ports(device string) (ports []Port) {
	dir := filepath.Join(s.class(), device, "ports")
	for _, n := range numbers(dir) {
		ports = append(ports, readPort(filepath.Join(dir, strconv.Itoa(n)), n))
	}
	if len(ports) > 0 {
		ports[0].NetDevs = union(ports[0].NetDevs, s.netDevs(device))
	}
	return ports
}

func readPort(dir string, number int) Port {
	p := Port{Number: number, LinkLayer: readWord(filepath.Join(dir, "link_layer")), Rate: readWord(filepath.Join(dir, "rate"))}
	_, p.State, _ = strings.Cut(readWord(filepath.Join(dir, "state")), ": ")
	for _, i := range numbers(filepath.Join(dir, "gids")) {
		addr, err := netip.ParseAddr(readWord(filepath.Join(dir, "gids", strconv.Itoa(i))))
		if err != nil || addr.IsUnspecified() {
			continue
		}
		g := GID{Index: i, Addr: addr.Unmap(), Type: readWord(filepath.Join(dir, "gid_attrs", "types", strconv.Itoa(i))),
			NetDev: readWord(filepath.Join(dir, "gid_attrs", "ndevs", strconv.Itoa(i)))}
		p.GIDs = append(p.GIDs, g)
		if g.NetDev != "" {
			p.NetDevs = union(p.NetDevs, []string{g.NetDev})
		}
	}
	return p
}

// netDevs are the network interfaces that belong to a device: those of the same
// hardware, or the one that a software device was put on.
func (s system) netDevs(device string) (names []string) {
	entries, _ := os.ReadDir(filepath.Join(s.class(), device, "device", "net"))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if parent := readWord(filepath.Join(s.class(), device, "parent")); parent != "" {
		names = union(names, []string{parent})
	}
	return names
}

func union(a, b []string) []string {
	for _, s := range b {
		if !slices.Contains(a, s) {
			a = append(a, s)
		}
	}
	return a
}

// numbers are the entries of a folder that are numbers, in their order.
func numbers(dir string) (list []int) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list
}

// deviceNames are the devices that the kernel has.
func (s system) deviceNames() (names []string) {
	entries, _ := os.ReadDir(s.class())
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// addresses are the addresses by which a device can be reached, the best first:
// those of its GIDs on RoCE v2, else those of its interfaces. interfaces tells the
// latter.
func addresses(ports []Port, interfaces func(name string) []netip.Addr) (list []netip.Addr) {
	roce := false
	for _, p := range ports {
		for _, g := range p.GIDs {
			if g.Type == typeRoCEv2 {
				roce = true
				list = append(list, zoned(g.Addr, g.NetDev))
			}
		}
	}
	for _, p := range ports {
		for _, name := range p.NetDevs {
			if !roce {
				list = append(list, interfaces(name)...)
			}
		}
	}
	slices.SortStableFunc(list, func(a, b netip.Addr) int { return cmp.Compare(rank(a), rank(b)) })
	return list
}

// rank orders addresses: those that routers forward before those of one link.
func rank(a netip.Addr) int {
	if a.IsLinkLocalUnicast() {
		return 1
	}
	return 0
}

// zoned adds the interface to a link-local address, which means nothing without.
func zoned(a netip.Addr, netDev string) netip.Addr {
	if a.Is6() && a.IsLinkLocalUnicast() && netDev != "" {
		return a.WithZone(netDev)
	}
	return a
}

// interfaceAddresses are those of a network interface of this machine.
func interfaceAddresses(name string) (list []netip.Addr) {
	i, err := net.InterfaceByName(name)
	if err != nil {
		return nil
	}
	addrs, _ := i.Addrs()
	for _, a := range addrs {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			list = append(list, zoned(prefix.Addr().Unmap(), name))
		}
	}
	return list
}
