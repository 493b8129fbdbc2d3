package verbstest

import (
	"net/url"
	"testing"

	"rbd/verbs"
)

var deviceCases = []Case{
	{"DeviceList", testDeviceList},
	{"DeviceAttr", testDeviceAttr},
	{"DeviceOfCMID", testDeviceOfCMID},
	{"AddrOfOtherFabric", testAddrOfOtherFabric},
	{"AddrUnknownParam", testAddrUnknownParam},
}

// Protects the listing that the commands print: devices have names, each once,
// and are the same at every call.
func testDeviceList(t *testing.T, e *Env) {
	if got, want := e.Provider.Name(), e.Fabric.Listen.Fabric; got != want {
		t.Errorf("the provider's name is %q, the scheme of its addresses %q", got, want)
	}
	devs, err := e.Provider.Devices()
	if err != nil || len(devs) == 0 {
		t.Fatalf("%d devices, error %v", len(devs), err)
	}
	seen := map[string]bool{}
	for _, d := range devs {
		if d.Name() == "" || seen[d.Name()] {
			t.Errorf("device name %q is empty or there twice", d.Name())
		}
		seen[d.Name()] = true
	}
	again, err := e.Provider.Devices()
	if err != nil || len(again) != len(devs) {
		t.Errorf("second call: %d devices, error %v; first call: %d", len(again), err, len(devs))
	}
}

// Protects callers that size their queues by the limits: none is missing, and
// all suffice for NVMe over Fabrics, whose connection request carries 32 bytes.
func testDeviceAttr(t *testing.T, e *Env) {
	a := e.Device.Attr()
	for _, l := range []struct {
		name       string
		value, min int
	}{
		{"MaxQPWR", a.MaxQPWR, 128},
		{"MaxSGE", a.MaxSGE, 2},
		{"MaxSGERead", a.MaxSGERead, 1},
		{"MaxCQE", a.MaxCQE, 256},
		{"MaxMR", a.MaxMR, 128},
		{"MaxMRSize", int(min(a.MaxMRSize, 1<<30)), 64 << 20},
		{"MaxQPRdAtom", a.MaxQPRdAtom, 1},
		{"MaxQPInitRdAtom", a.MaxQPInitRdAtom, 1},
		{"MaxInline", a.MaxInline, 0},
		{"MaxPrivateData", a.MaxPrivateData, 32},
	} {
		if l.value < l.min {
			t.Errorf("%s is %d, want at least %d", l.name, l.value, l.min)
		}
	}
}

// Protects the rule that a CMID is bound to a device of the list from the start.
func testDeviceOfCMID(t *testing.T, e *Env) {
	devs, err := e.Provider.Devices()
	if err != nil {
		t.Fatal(err)
	}
	p := e.Pair(nil)
	for _, s := range []*Side{p.Client, p.Server} {
		found := false
		for _, d := range devs {
			found = found || d.Name() == s.ID.Device().Name()
		}
		if !found {
			t.Errorf("%s: device %q is not in the list", s.name, s.ID.Device().Name())
		}
		if got := s.PD.Device().Name(); got != s.ID.Device().Name() {
			t.Errorf("%s: PD of device %q, CMID of %q", s.name, got, s.ID.Device().Name())
		}
	}
}

// Protects a program with several providers: an address goes to its own only.
func testAddrOfOtherFabric(t *testing.T, e *Env) {
	addr := e.Fabric.Listen
	addr.Fabric = "carrierpigeon"
	_, err := e.Provider.ResolveAddr(e.Context(), addr)
	e.WantErr("resolve an address of another fabric", err, verbs.ErrInvalid)
	_, err = e.Provider.Listen(e.Context(), addr)
	e.WantErr("listen on an address of another fabric", err, verbs.ErrInvalid)
}

// Protects users from misspelt parameters that do nothing.
func testAddrUnknownParam(t *testing.T, e *Env) {
	addr := e.Fabric.Listen
	addr.Params = url.Values{"no-such-parameter": {"1"}}
	_, err := e.Provider.ResolveAddr(e.Context(), addr)
	e.WantErr("resolve an address with an unknown parameter", err, verbs.ErrInvalid)
	_, err = e.Provider.Listen(e.Context(), addr)
	e.WantErr("listen on an address with an unknown parameter", err, verbs.ErrInvalid)
}
