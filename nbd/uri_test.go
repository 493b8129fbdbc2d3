package nbd

import (
	"net"
	"testing"
)

// URIs are what libnbd and qemu take apart again, for names and paths with
// characters that have a meaning there.
func TestURI(t *testing.T) {
	unix := func(s string) net.Addr { return &net.UnixAddr{Name: s, Net: "unix"} }
	for _, tt := range []struct {
		addr   net.Addr
		export string
		want   string
	}{
		{unix("/run/rbd/x.sock"), "1", "nbd+unix:///1?socket=/run/rbd/x.sock"},
		{unix("/tmp/a b&c?d#e%f+g"), "", "nbd+unix:///?socket=/tmp/a%20b%26c%3Fd%23e%25f%2Bg"},
		{unix("@abstract"), "1", "nbd+unix:///1?socket=%00abstract"},
		{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 10809}, "two words", "nbd://127.0.0.1:10809/two%20words"},
		{&net.TCPAddr{IP: net.ParseIP("::1"), Port: 1}, "/disk", "nbd://[::1]:1//disk"},
		{&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0", Port: 1}, "ü", "nbd://[fe80::1%25eth0]:1/%C3%BC"},
		{&net.TCPAddr{IP: net.IPv6unspecified, Port: 7}, "1", "nbd://localhost:7/1"},
	} {
		if got := URI(tt.addr, tt.export); got != tt.want {
			t.Errorf("%v %q: %s, want %s", tt.addr, tt.export, got, tt.want)
		}
	}
}
