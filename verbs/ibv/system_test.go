package ibv

import (
	"errors"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"rbd/verbs"
)

// tree makes a folder of files; a name that ends in / is a folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// roce are the files of a RoCE device with a port of four GIDs.
func roce() map[string]string {
	port := "class/infiniband/mlx5_0/ports/1/"
	return map[string]string{
		"class/infiniband/mlx5_0/node_type": "1: CA", "class/infiniband/mlx5_0/fw_ver": "20.1.2",
		"class/infiniband_verbs/uverbs3/ibdev": "mlx5_0",
		port + "state":                         "4: ACTIVE", port + "link_layer": "Ethernet", port + "rate": "100 Gb/sec (4X EDR)",
		port + "gids/0": "fe80:0000:0000:0000:0202:c9ff:fe00:0001", port + "gid_attrs/types/0": "IB/RoCE v1", port + "gid_attrs/ndevs/0": "eth7",
		port + "gids/1": "fe80:0000:0000:0000:0202:c9ff:fe00:0001", port + "gid_attrs/types/1": "RoCE v2", port + "gid_attrs/ndevs/1": "eth7",
		port + "gids/2": "0000:0000:0000:0000:0000:ffff:c000:0205", port + "gid_attrs/types/2": "IB/RoCE v1", port + "gid_attrs/ndevs/2": "eth7",
		port + "gids/10": "0000:0000:0000:0000:0000:ffff:c000:0205", port + "gid_attrs/types/10": "RoCE v2", port + "gid_attrs/ndevs/10": "eth7",
		port + "gids/11": "0000:0000:0000:0000:0000:0000:0000:0000",
	}
}

// Protects the listing of devices: what sysfs says, in the order of numbers.
func TestPorts(t *testing.T) {
	s := system{sys: tree(t, roce())}
	want := Info{Name: "mlx5_0", Transport: "RoCE", Firmware: "20.1.2", Ports: []Port{{
		Number: 1, State: "ACTIVE", LinkLayer: "Ethernet", Rate: "100 Gb/sec (4X EDR)", NetDevs: []string{"eth7"}, GIDs: []GID{
			{0, netip.MustParseAddr("fe80::202:c9ff:fe00:1"), typeRoCEv1, "eth7"}, {1, netip.MustParseAddr("fe80::202:c9ff:fe00:1"), typeRoCEv2, "eth7"},
			{2, netip.MustParseAddr("192.0.2.5"), typeRoCEv1, "eth7"}, {10, netip.MustParseAddr("192.0.2.5"), typeRoCEv2, "eth7"}}}}}
	if d := cmp.Diff(want, s.info("mlx5_0"), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}

// Protects users who have only iWARP, or an empty or half-gone sysfs.
func TestPortsOfOthers(t *testing.T) {
	s := system{sys: tree(t, map[string]string{
		"class/infiniband/siw0/node_type": "4: RNIC", "class/infiniband/siw0/ports/1/state": "1: DOWN", "class/infiniband/siw0/device/net/eth0/": "",
		"class/infiniband/ib0/node_type": "1: CA", "class/infiniband/ib0/ports/1/link_layer": "InfiniBand",
		"class/infiniband/rxe0/parent": "eth5", "class/infiniband/rxe0/ports/1/link_layer": "Ethernet"})}
	if i := s.info("siw0"); i.Transport != "iWARP" || i.Ports[0].State != "DOWN" || !cmp.Equal(i.Ports[0].NetDevs, []string{"eth0"}) {
		t.Errorf("siw0: %+v", i)
	}
	if i := s.info("ib0"); i.Transport != "InfiniBand" {
		t.Errorf("ib0: %+v", i)
	}
	if i := s.info("rxe0"); i.Transport != "RoCE" || !cmp.Equal(i.Ports[0].NetDevs, []string{"eth5"}) {
		t.Errorf("rxe0: %+v", i)
	}
	if i := s.info("gone"); len(i.Ports) != 0 {
		t.Errorf("gone: %+v", i)
	}
}

// Protects the choice of an address: RoCE v2 before all, routable before
// link-local, interfaces where GIDs are no addresses.
func TestAddresses(t *testing.T) {
	nets := func(name string) []netip.Addr {
		return map[string][]netip.Addr{"eth0": {netip.MustParseAddr("fe80::1%eth0"), netip.MustParseAddr("198.51.100.1")}}[name]
	}
	gid := func(i int, addr, kind string) GID { return GID{i, netip.MustParseAddr(addr), kind, "eth0"} }
	for name, tt := range map[string]struct {
		ports []Port
		want  []string
	}{
		"RoCE": {[]Port{{NetDevs: []string{"eth0"}, GIDs: []GID{gid(0, "fe80::2", typeRoCEv1), gid(1, "fe80::2", typeRoCEv2), gid(2, "192.0.2.5", typeRoCEv1),
			gid(3, "192.0.2.5", typeRoCEv2), gid(4, "2001:db8::5", typeRoCEv2)}}}, []string{"192.0.2.5", "2001:db8::5", "fe80::2%eth0"}},
		"iWARP": {[]Port{{NetDevs: []string{"eth0"}, GIDs: []GID{gid(0, "202:c9ff:fe00::", typeRoCEv1)}}}, []string{"198.51.100.1", "fe80::1%eth0"}},
		"none":  {[]Port{{}}, nil},
	} {
		var got []string
		for _, a := range addresses(tt.ports, nets) {
			got = append(got, a.String())
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s (-want +got)\n%s", name, d)
		}
	}
}

// Protects users who choose a GID or device: what does not fit is said.
func TestChosenAddress(t *testing.T) {
	p := New()
	p.system = system{sys: tree(t, roce())}
	v1 := roce()
	for name := range v1 {
		if strings.Contains(name, "gid_attrs/types") {
			v1[name] = typeRoCEv1
		}
	}
	only := New()
	only.system = system{sys: tree(t, v1)}
	for _, tt := range []struct {
		p     *Provider
		query string
		peer  string
		want  string // the first address, or part of the error
	}{
		{p, "", "192.0.2.9", "invalid IP"},
		{p, "device=mlx5_0", "192.0.2.9", "192.0.2.5"},
		{p, "device=mlx5_0", "2001:db8::9", "fe80::202:c9ff:fe00:1%eth7"},
		{p, "gid-index=10", "192.0.2.9", "192.0.2.5"},
		{p, "device=mlx5_0&gid-index=10", "2001:db8::1", "no address of the kind"},
		{p, "device=mlx5_0&gid-index=2", "192.0.2.9", "RoCE v1"},
		{p, "device=mlx5_0&gid-index=7", "192.0.2.9", "no GID 7"},
		{p, "device=mlx5_1", "192.0.2.9", `no RDMA device "mlx5_1", only: mlx5_0`},
		{only, "device=mlx5_0", "192.0.2.9", "only GIDs of RoCE v1"},
	} {
		values, _ := url.ParseQuery(tt.query)
		o, err := parseParams(verbs.Addr{Fabric: Name, Params: values})
		if err != nil {
			t.Fatal(err)
		}
		got, err := tt.p.sources(o, netip.MustParseAddr(tt.peer))
		text := ""
		if err != nil {
			text = err.Error()
		} else if len(got) > 0 {
			text = got[0].String()
		}
		if !strings.Contains(text, tt.want) {
			t.Errorf("%q to %s: %q, want %q", tt.query, tt.peer, text, tt.want)
		}
	}
}

// Protects users from misspelt parameters.
func TestParams(t *testing.T) {
	for query, want := range map[string]params{
		"":                                 {"", -1, -1},
		"device=rxe0&gid-index=3&tos=0x20": {"rxe0", 3, 32},
		"tos=255":                          {"", -1, 255},
	} {
		values, _ := url.ParseQuery(query)
		if got, err := parseParams(verbs.Addr{Fabric: Name, Params: values}); err != nil || got != want {
			t.Errorf("%q: %+v, error %v", query, got, err)
		}
	}
	for _, query := range []string{"crc=on", "tos=256", "tos=-1", "gid-index=x", "gid-index=256", "device=", "tos=1&tos=2", "Device=rxe0"} {
		values, _ := url.ParseQuery(query)
		if got, err := parseParams(verbs.Addr{Fabric: Name, Params: values}); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%q: %+v, error %v", query, got, err)
		}
	}
}

// Protects users without a working set-up: each lack is named with its remedy.
func TestCheck(t *testing.T) {
	full := roce()
	noVerbs := roce()
	delete(noVerbs, "class/infiniband_verbs/uverbs3/ibdev")
	for name, tt := range map[string]struct {
		sys, dev map[string]string
		want     string
	}{
		"all is there":    {full, map[string]string{"rdma_cm": "", "uverbs3": ""}, ""},
		"no device":       {map[string]string{"class/": ""}, nil, "rdma link add rxe0"},
		"no rdma_ucm":     {full, map[string]string{"uverbs3": ""}, "modprobe rdma_ucm"},
		"no ib_uverbs":    {noVerbs, map[string]string{"rdma_cm": ""}, "modprobe ib_uverbs"},
		"no uverbs3 file": {full, map[string]string{"rdma_cm": ""}, "modprobe ib_uverbs"},
	} {
		s := system{sys: tree(t, tt.sys), dev: tree(t, tt.dev)}
		err := s.check()
		if text := message(err); tt.want == "" && err != nil || !strings.Contains(text, tt.want) {
			t.Errorf("%s: %q, want %q", name, text, tt.want)
		}
	}
	p := New()
	p.load = func() (library, error) {
		return nil, &missingLibraryError{"libibverbs.so.1", "libibverbs.so.1: cannot open"}
	}
	if _, err := p.Devices(); !strings.Contains(message(err), "apt install libibverbs1 librdmacm1 ibverbs-providers") {
		t.Errorf("without rdma-core: %v", err)
	}
	if text := (&missingLibraryError{what: "rdma_connect"}).Error(); !strings.Contains(text, "too old") {
		t.Errorf("an old rdma-core: %q", text)
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Protects users with a small memory-lock limit: it is compared before memory is
// pinned, and the error says how to raise it.
func TestMemlock(t *testing.T) {
	status := filepath.Join(tree(t, map[string]string{"status": "Name:\tx\nVmPin:\t    1000 kB\nCapEff:\t0000000000000000"}), "status")
	root := filepath.Join(tree(t, map[string]string{"status": "VmPin:\t    1000 kB\nCapEff:\t000001ffffffffff"}), "status")
	for _, tt := range []struct {
		status string
		limit  uint64
		n      int
		ok     bool
	}{
		{status, unlimited, 1 << 40, true}, {root, 0, 1 << 40, true}, {status, 8 << 20, 7 << 20, true}, {status, 8 << 20, 8 << 20, false},
		{status, 0, 1, false}, {status, 1000<<10 + 4096, 4096, true}, {status, 1000<<10 + 4096, 4097, false}, {"/none", 4096, 4096, true},
	} {
		err := memlock{status: tt.status, limit: func() uint64 { return tt.limit }}.check(tt.n)
		if tt.ok != (err == nil) || err != nil && (!errors.Is(err, verbs.ErrNoMemory) || !strings.Contains(err.Error(), "LimitMEMLOCK")) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

// Protects the words for refusals: a program's is left to the program, all others
// name the cause.
func TestRejected(t *testing.T) {
	for _, tt := range []struct {
		iwarp  bool
		status int32
		want   string
	}{
		{false, 28, ""}, {true, -int32(unix.ECONNRESET), ""}, {false, 8, "nobody listens"}, {false, 26, "MTU"}, {false, 99, "reason 99"},
		{false, -int32(unix.ECONNREFUSED), "refused"},
	} {
		var re *verbs.RejectError
		err := rejected(tt.iwarp, cmEvent{status: tt.status, conn: connRecord{privateData: []byte{1}}})
		if !errors.As(err, &re) || !strings.Contains(re.Reason, tt.want) || tt.want == "" && re.Reason != "" || len(re.PrivateData) != 1 {
			t.Errorf("status %d: %+v", tt.status, re)
		}
	}
}

// Protects the words for addresses that don't fit.
func TestExplain(t *testing.T) {
	dst, src := netip.MustParseAddrPort("192.0.2.1:4420"), netip.MustParseAddr("192.0.2.2")
	for errno, want := range map[unix.Errno]string{unix.ENODEV: "no RDMA device is on the way to 192.0.2.1", unix.ENETUNREACH: "no route",
		unix.ETIMEDOUT: "does not answer", unix.EADDRNOTAVAIL: "192.0.2.2 is not", unix.EPERM: "not permitted"} {
		if err := explainResolve(dst, src, errno); !strings.Contains(err.Error(), want) || !errors.Is(err, errno) {
			t.Errorf("%v: %v", errno, err)
		}
	}
	for errno, want := range map[unix.Errno]string{unix.ENODEV: "no RDMA device has the address 192.0.2.2", unix.EADDRINUSE: "has the port", unix.EACCES: "root"} {
		if err := explainBind(src, errno); !strings.Contains(err.Error(), want) || !errors.Is(err, errno) {
			t.Errorf("%v: %v", errno, err)
		}
	}
	for status, want := range map[verbs.WCStatus]string{verbs.WCRetryExcErr: "MTU", verbs.WCRNRRetryExcErr: "no receive", verbs.WCLocProtErr: "LOC_PROT_ERR"} {
		if err := (&workError{"send", status, 3}); !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", status, err)
		}
	}
}

// Protects addresses on their way to the libraries and back.
func TestSockaddr(t *testing.T) {
	for _, s := range []string{"192.0.2.1:4420", "[2001:db8::1]:0", "[::]:1", "0.0.0.0:65535", "[fe80::1%lo]:7", "[::ffff:192.0.2.1]:5"} {
		want := netip.MustParseAddrPort(s)
		a, err := newSockaddr(want)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.addrPort(); got != netip.AddrPortFrom(want.Addr().Unmap(), want.Port()) {
			t.Errorf("%s reads back as %s", s, got)
		}
	}
	if _, err := newSockaddr(netip.MustParseAddrPort("[fe80::1%none]:7")); err == nil {
		t.Error("an unknown zone was taken")
	}
	var none sockaddr
	if none.addrPort().IsValid() {
		t.Error("no address reads as one")
	}
}

// Protects the start on any machine: with what is installed here the provider
// either lists devices or says what is missing.
func TestThisMachine(t *testing.T) {
	devices, err := New().Devices()
	if (err == nil) != (len(devices) > 0) {
		t.Errorf("%d devices, error %v", len(devices), err)
	}
	infos, derr := New().Describe()
	if err != nil && derr == nil || len(infos) < len(devices) {
		t.Errorf("%d devices described, error %v; %d listed, error %v", len(infos), derr, len(devices), err)
	}
}
