package target

import (
	"strings"
	"testing"

	"rbd/wire"
)

// Protects who looks for why a host is refused from names that look the same.
func TestRefusalNamesAlikeHost(t *testing.T) {
	const allowed = "nqn.2026-11.org.example:Host a"
	policy := AccessPolicy{Hosts: []string{"nqn.2026-11.org.example:b", allowed}}
	for host, said := range map[string]bool{
		"nqn.2026-11.org.example:host a":  true,
		"nqn.2026-11.org.example:Hosta":   true,
		"nqn.2026-11.org.example:Host a ": true,
		"nqn.2026-11.org.example:c":       false,
	} {
		q := &connectRequest{at: &endpoint{policy: &policy}, data: wire.ConnectData{HostNQN: wire.MakeNQNField(host)}}
		no := (&Target{}).checkHost(q, &subsystem{})
		if no == nil || strings.Contains(no.why, `"`+allowed+`" is, and`) != said {
			t.Errorf("%q: %+v", host, no)
		}
	}
}
