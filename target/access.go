package target

import (
	"net/netip"
	"slices"
	"strings"

	"rbd/verbs"
)

// AccessPolicy says which hosts a listener serves.
type AccessPolicy struct {
	// AnyHost lets all hosts in.
	AnyHost bool
	// Hosts are the NQNs that are let in otherwise.
	Hosts []string
}

// PolicyFor is the policy of a listener at addr: on a loopback address any host,
// elsewhere the hosts named, or any if anyHost is set.
func PolicyFor(addr verbs.Addr, hosts []string, anyHost bool) AccessPolicy {
	return AccessPolicy{AnyHost: anyHost || isLoopback(addr.Host), Hosts: slices.Clone(hosts)}
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() || host == "localhost"
}

func (p *AccessPolicy) allows(hostNQN string) bool {
	return p.AnyHost || slices.Contains(p.Hosts, hostNQN)
}

// alike is an allowed host whose name differs from hostNQN in no more than case and
// blanks, which is a mistake in one of the two; empty if there is none.
func (p *AccessPolicy) alike(hostNQN string) string {
	plain := func(nqn string) string { return strings.ToLower(strings.Join(strings.Fields(nqn), "")) }
	for _, h := range p.Hosts {
		if plain(h) == plain(hostNQN) {
			return h
		}
	}
	return ""
}
