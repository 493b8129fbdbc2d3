package conformance

import (
	"os"
	"testing"

	"rbd/internal/testenv"
	"rbd/verbs"
	"rbd/verbs/ibv"
	"rbd/verbs/verbstest"
)

// TestConformance runs the suite that every provider must pass, on the RDMA device
// that has the address RBD_IBV_LISTEN, and for IPv6 RBD_IBV_LISTEN6. The scenarios
// tests/vm/scenarios/ibv-conformance-*.sh run it in a virtual machine on Soft-RoCE
// and Soft-iWARP.
func TestConformance(t *testing.T) {
	if os.Getenv("RBD_IBV_LISTEN") == "" {
		testenv.Skip(t, "an RDMA device, by its address in RBD_IBV_LISTEN")
	}
	f := verbstest.Fabric{Provider: ibv.New(), Listen: address(t, "RBD_IBV_LISTEN")}
	// What the kernel's software devices make of errors.
	f.VagueErrors, f.SilentFaults = true, true
	siw := os.Getenv("RBD_IBV_KIND") == "siw"
	f.LaxReads, f.MoreReads, f.StaleEmptyReads = siw, siw, siw
	if os.Getenv("RBD_IBV_LISTEN6") != "" {
		f.ListenIPv6 = address(t, "RBD_IBV_LISTEN6")
	}
	verbstest.Test(t, f)
}

func address(t *testing.T, variable string) verbs.Addr {
	t.Helper()
	a, err := verbs.ParseAddr(os.Getenv(variable), "0")
	if err != nil {
		t.Fatal(err)
	}
	return a
}
