package verbs

import (
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Protects the addresses that users type: every form of host, with and without
// port, and above all the colons of IPv6.
func TestParseAddr(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want Addr
		str  string // Addr.String
	}{
		{"192.0.2.1", Addr{"iwarp", "192.0.2.1", "4420", nil}, "iwarp://192.0.2.1:4420"},
		{"192.0.2.1:1", Addr{"iwarp", "192.0.2.1", "1", nil}, "iwarp://192.0.2.1:1"},
		{"storage.example", Addr{"iwarp", "storage.example", "4420", nil}, "iwarp://storage.example:4420"},
		{"storage.example:0", Addr{"iwarp", "storage.example", "0", nil}, "iwarp://storage.example:0"},
		{"storage.example:", Addr{"iwarp", "storage.example", "4420", nil}, "iwarp://storage.example:4420"},
		{"storage.example:65535", Addr{"iwarp", "storage.example", "65535", nil}, "iwarp://storage.example:65535"},
		{"storage.example:00080", Addr{"iwarp", "storage.example", "80", nil}, "iwarp://storage.example:80"},
		{"rdma://storage.example", Addr{"rdma", "storage.example", "4420", nil}, "rdma://storage.example:4420"},
		{"rdma://storage.example:7/", Addr{"rdma", "storage.example", "7", nil}, "rdma://storage.example:7"},
		{"::1", Addr{"iwarp", "::1", "4420", nil}, "iwarp://[::1]:4420"},
		{"::", Addr{"iwarp", "::", "4420", nil}, "iwarp://[::]:4420"},
		{"[::1]", Addr{"iwarp", "::1", "4420", nil}, "iwarp://[::1]:4420"},
		{"[::1]:9", Addr{"iwarp", "::1", "9", nil}, "iwarp://[::1]:9"},
		{"[::1]:", Addr{"iwarp", "::1", "4420", nil}, "iwarp://[::1]:4420"},
		{"2001:db8::1:9", Addr{"iwarp", "2001:db8::1:9", "4420", nil}, "iwarp://[2001:db8::1:9]:4420"},
		{"fe80::1%eth0", Addr{"iwarp", "fe80::1%eth0", "4420", nil}, "iwarp://[fe80::1%eth0]:4420"},
		{"[fe80::1%eth0]:9", Addr{"iwarp", "fe80::1%eth0", "9", nil}, "iwarp://[fe80::1%eth0]:9"},
		{"rdma://[fe80::1%eth0]:9", Addr{"rdma", "fe80::1%eth0", "9", nil}, "rdma://[fe80::1%eth0]:9"},
		{":4420", Addr{"iwarp", "", "4420", nil}, "iwarp://:4420"},
		{"", Addr{"iwarp", "", "4420", nil}, "iwarp://:4420"},
		{"iwarp://", Addr{"iwarp", "", "4420", nil}, "iwarp://:4420"},
		{"h:1?", Addr{"iwarp", "h", "1", url.Values{}}, "iwarp://h:1"},
		{"h:1?crc=on", Addr{"iwarp", "h", "1", url.Values{"crc": {"on"}}}, "iwarp://h:1?crc=on"},
		{"h?b=2&a=1&a=3", Addr{"iwarp", "h", "4420", url.Values{"a": {"1", "3"}, "b": {"2"}}}, "iwarp://h:4420?a=1&a=3&b=2"},
		{"h:1?next=a://b", Addr{"iwarp", "h", "1", url.Values{"next": {"a://b"}}}, "iwarp://h:1?next=a%3A%2F%2Fb"},
		{"[::1]:9?x=%3F%26", Addr{"iwarp", "::1", "9", url.Values{"x": {"?&"}}}, "iwarp://[::1]:9?x=%3F%26"},
	} {
		got, err := ParseAddr(tt.in, DefaultPort)
		if err != nil {
			t.Errorf("%q: %v", tt.in, err)
			continue
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%q: (-want +got)\n%s", tt.in, d)
		}
		if got.String() != tt.str {
			t.Errorf("%q: reads back as %q, want %q", tt.in, got, tt.str)
		}
	}
}

// Protects users from addresses that mean something else than they typed.
func TestParseAddrErrors(t *testing.T) {
	for _, in := range []string{
		"://h", "h:http", "h:65536", "h:-1", "h:+1", "h: 1", "[::1", "[::1]9", "[::1]:9:9", "::1]:9", "[[::1]]:9", "[", "[]x", "h]", "h:1?%zz", "h:1?a;b", "h:99999999999999999999",
		"h/sub", "h h", "user@h", "nvme:disk:0", "http://h:1/x",
	} {
		if a, err := ParseAddr(in, DefaultPort); err == nil {
			t.Errorf("%q was taken as %#v", in, a)
		}
	}
}

// Protects users who leave out the brackets of IPv6 from looking for a network fault.
func TestBracketHint(t *testing.T) {
	for in, want := range map[string]string{
		"::1:4420":              "; port 4420 of ::1 is [::1]:4420",
		"rdma://2001:db8::1:80": "; port 80 of 2001:db8::1 is [2001:db8::1]:80",
		"::1":                   "",
		"2001:db8::1":           "",
		"2001:db8::1:beef":      "",
		"1:2:3:4:5:6:7:8":       "",
		"192.0.2.1:4420":        "",
		"h":                     "",
	} {
		a, err := ParseAddr(in, DefaultPort)
		if err != nil {
			t.Fatal(err)
		}
		if got := a.BracketHint(); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

// Protects callers with another default, and one that is none.
func TestParseAddrDefaultPort(t *testing.T) {
	for _, in := range []string{"h", "h:", "[::1]", "::1", "[::1]:"} {
		if a, err := ParseAddr(in, "8009"); err != nil || a.Port != "8009" {
			t.Errorf("%q: port %q, error %v", in, a.Port, err)
		}
		if _, err := ParseAddr(in, ""); err == nil {
			t.Errorf("%q: no error without any port", in)
		}
	}
}

// Protects the round trip: what ParseAddr takes, String writes so that ParseAddr
// reads the same again.
func FuzzParseAddr(f *testing.F) {
	for _, s := range []string{"h", "h:1", "[::1]:2", "fe80::1%eth0", "rdma://h?a=b&c", "://", "[", "]:1", "a://b://c", "h:1?x=%00", "[]:1", "[a]b]:1", "?/", "f::%072[", "f::%a/b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAddr(s, DefaultPort)
		if err != nil {
			return
		}
		again, err := ParseAddr(a.String(), "1")
		if err != nil {
			t.Fatalf("%q gives %#v, which is written as %q: %v", s, a, a, err)
		}
		if len(a.Params) == 0 {
			a.Params, again.Params = nil, nil
		}
		if d := cmp.Diff(a, again); d != "" {
			t.Fatalf("%q (-first +again)\n%s", s, d)
		}
	})
}
