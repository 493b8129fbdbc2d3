package nbd

import (
	"net"
	"strings"
)

// URI is the NBD URI of an export on a listener's address (doc/uri.md of the
// NBD project): nbd+unix:///NAME?socket=PATH or nbd://HOST:PORT/NAME. A wildcard
// address becomes localhost, which a client on this machine can connect to.
func URI(addr net.Addr, export string) string {
	if u, ok := addr.(*net.UnixAddr); ok {
		path := u.Name
		if strings.HasPrefix(path, "@") { // Go's spelling of an abstract socket
			path = "\x00" + path[1:]
		}
		return "nbd+unix:///" + escape(export) + "?socket=" + escape(path)
	}
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return "nbd://" + escape(addr.String()) + "/" + escape(export)
	}
	if t, ok := addr.(*net.TCPAddr); ok && (t.IP == nil || t.IP.IsUnspecified()) {
		host = "localhost"
	}
	host = strings.ReplaceAll(host, "%", "%25") // the zone of a link-local address
	return "nbd://" + net.JoinHostPort(host, port) + "/" + escape(export)
}

// escape percent-encodes all but the unreserved characters of RFC 3986 and '/'.
// Clients don't take '+' for a space, so it is never used for one.
func escape(s string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~/", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(hex[c>>4])
		b.WriteByte(hex[c&15])
	}
	return b.String()
}
