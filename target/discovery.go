package target

import (
	"net"
	"net/netip"
	"slices"
	"strconv"

	"rbd/wire"
)

// endpoint is where a host reached the target: what it is told to connect to.
type endpoint struct {
	portID uint16
	addr   netip.AddrPort
	iwarp  bool
	policy *AccessPolicy
}

// addrPort is the address in a net.Addr; the zero value if it has none.
func addrPort(a net.Addr) netip.AddrPort {
	p, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}

// discoveryLog is log page 70h for a host: the discovery subsystem itself, and the
// subsystems that the host may use, all at the address where it is now.
func (t *Target) discoveryLog(hostNQN string, at *endpoint) []byte {
	t.mu.Lock()
	head := wire.DiscoveryLogHeader{GENCTR: t.generation}
	var names []string
	if at.policy.allows(hostNQN) {
		for nqn, s := range t.subsystems {
			if !s.discovery {
				names = append(names, nqn)
			}
		}
	}
	t.mu.Unlock()
	slices.Sort(names)
	head.NUMREC = uint64(len(names)) + 1
	page := head.Append(nil)
	entry := at.entry(wire.DiscoveryNQN, wire.SubsystemCurrentDiscovery)
	page = entry.Append(page)
	for _, nqn := range names {
		entry = at.entry(nqn, wire.SubsystemNVM)
		page = entry.Append(page)
	}
	return page
}

func (at *endpoint) entry(nqn string, kind wire.SubsystemType) wire.DiscoveryLogEntry {
	e := wire.DiscoveryLogEntry{
		TRTYPE: wire.TransportRDMA, ADRFAM: wire.AddressIPv4, SUBTYPE: kind, TREQ: wire.TREQDisableSQFlow,
		PORTID: at.portID, CNTLID: wire.CNTLIDDynamic, ASQSZ: adminDepth, SUBNQN: wire.MakeNQNField(nqn),
		TSAS: wire.RDMATransportAddress{QPTYPE: wire.QPTypeConnected, PRTYPE: wire.ProviderNotSpecified, CMS: wire.CMSRDMACM},
	}
	if at.addr.Addr().Is6() {
		e.ADRFAM = wire.AddressIPv6
	}
	if at.iwarp {
		e.TSAS.PRTYPE = wire.ProviderIWARP
	}
	wire.PutText(e.TRADDR[:], at.addr.Addr().WithZone("").String())
	wire.PutText(e.TRSVCID[:], strconv.Itoa(int(at.addr.Port())))
	return e
}
