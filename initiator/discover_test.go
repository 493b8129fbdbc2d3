package initiator

import (
	"fmt"
	"strings"
	"testing"

	"rbd/wire"
)

// discoveryScript serves a discovery log; page says how it is after the header
// has been read so often.
func discoveryScript(t *testing.T, page func(reading int) (genctr, numrec uint64, entries int)) *script {
	s := newScript(t)
	s.id.CNTRLTYPE = wire.ControllerDiscovery
	s.id.KAS, s.id.IOCCSZ, s.id.OAES = 0, 0, 0
	headers := 0
	s.hook = func(_ uint16, q *wire.SQE) ([]byte, *wire.CQE, error) {
		if q.Opcode != uint8(wire.AdminGetLogPage) {
			return nil, nil, nil
		}
		g := wire.ParseGetLogPage(q)
		genctr, numrec, entries := page(headers)
		if g.LPO == 0 {
			headers++
		}
		log := (&wire.DiscoveryLogHeader{GENCTR: genctr, NUMREC: numrec}).Append(nil)
		for i := range entries {
			e := wire.DiscoveryLogEntry{SUBNQN: wire.MakeNQNField(fmt.Sprintf("%s%d", testNQN, i)), TRTYPE: wire.TransportRDMA}
			log = e.Append(log)
		}
		if n, ok := g.Window(uint64(len(log))); !ok || n == 0 {
			return nil, &wire.CQE{Status: wire.StatusInvalidField.WithDNR()}, nil
		}
		return log[g.LPO:], &wire.CQE{}, nil
	}
	return s
}

// Protects the reading of the discovery log: whole, of one generation, bounded.
func TestDiscover(t *testing.T) {
	for _, tc := range []struct {
		name    string
		page    func(int) (genctr, numrec uint64, entries int)
		entries int
		genctr  uint64
		err     string
	}{
		{"empty", func(int) (uint64, uint64, int) { return 5, 0, 0 }, 0, 5, ""},
		{"many", func(int) (uint64, uint64, int) { return 9, 40, 40 }, 40, 9, ""},
		{"changed while it is read", func(n int) (uint64, uint64, int) { n = min(n, 1); return uint64(n), uint64(3 + n), 3 + n }, 4, 1, ""},
		{"shrinks", func(n int) (uint64, uint64, int) {
			if n < 2 {
				return 1, 30, 1 // the entries are not there any more
			}
			return 2, 1, 1
		}, 1, 2, ""},
		{"changes always", func(n int) (uint64, uint64, int) { return uint64(n), 1, 1 }, 0, 0, "changes while it is read"},
		{"endless", func(int) (uint64, uint64, int) { return 1, 1 << 60, 1 }, 0, 0, "at most"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			log, err := Discover(short(t), fastIWARP(), discoveryScript(t, tc.page).listen(), Options{})
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(log.Entries) != tc.entries || log.Generation != tc.genctr {
				t.Fatalf("%d entries of generation %d", len(log.Entries), log.Generation)
			}
			for i, e := range log.Entries {
				if want := fmt.Sprintf("%s%d", testNQN, i); e.SUBNQN.String() != want {
					t.Errorf("entry %d is %s", i, e.SUBNQN.String())
				}
			}
		})
	}
}
