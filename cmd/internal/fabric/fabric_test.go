package fabric

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"rbd/cmd/internal/command"
	"rbd/verbs"
)

// Protects the choice of a fabric by address.
func TestProvider(t *testing.T) {
	f := New()
	for _, name := range []string{"iwarp", "rdma"} {
		p, err := f.Provider(verbs.Addr{Fabric: name})
		if err != nil || p.Name() != name {
			t.Errorf("%s: %v, error %v", name, p, err)
		}
	}
	var usage *command.UsageError
	for _, addr := range []string{"tcp://h", "h?crc=yes", "h?tos=1", "rdma://h?crc=on"} {
		a, err := verbs.ParseAddr(addr, "1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Provider(a); !errors.As(err, &usage) {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

// Protects the tables that people read: every device, port, GID and limit has its
// line, and what can't be used says why.
func TestPrint(t *testing.T) {
	list := []Status{
		{Fabric: "iwarp", Usable: true, Devices: []Device{{Name: "iwarp0", Usable: true, Transport: "software"}}},
		{Fabric: "rdma", Usable: true, Problem: "no driver for mlx5_1", MemoryLock: &MemoryLock{Limit: 8 << 20, Used: 1 << 20}, Devices: []Device{
			{Name: "mlx5_0", Usable: true, Transport: "RoCE", Limits: &Limits{WorkRequests: 8192, SGEs: 30}, Ports: []Port{{Number: 1, State: "ACTIVE", LinkLayer: "Ethernet",
				MTU: 4096, NetDevs: []string{"eth7", "eth8"}, GIDs: []GID{{3, netip.MustParseAddr("192.0.2.5"), "RoCE v2", "eth7"}}}}},
			{Name: "mlx5_1", Transport: "InfiniBand", Ports: []Port{{Number: 1, State: "DOWN"}}},
		}},
	}
	var b strings.Builder
	if err := Print(&b, list); err != nil {
		t.Fatal(err)
	}
	lines := map[string]bool{}
	for line := range strings.Lines(b.String()) {
		lines[strings.Join(strings.Fields(line), " ")] = true
	}
	for _, want := range []string{
		"iwarp iwarp0 software usable", "rdma mlx5_0 RoCE usable", "rdma mlx5_1 InfiniBand not usable", "rdma - - not usable: no driver for mlx5_1",
		"mlx5_0 1 ACTIVE Ethernet 4096 eth7,eth8", "mlx5_1 1 DOWN - -", "mlx5_0 1 3 192.0.2.5 RoCE v2 eth7", "mlx5_0 8192 30 0 0 0 0/0 0",
		"memory lock limit 8.0 MiB, of which 1.0 MiB are in use",
	} {
		if !lines[want] {
			t.Errorf("no line %q in\n%s", want, b.String())
		}
	}
}
