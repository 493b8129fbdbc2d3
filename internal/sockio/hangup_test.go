package sockio_test

import (
	"testing"
	"time"

	"rbd/internal/sockio"
)

// Protects who must know of a peer's end without reading: it is noticed behind data
// that is unread, whether the peer closes or only ends its stream, and data alone is
// not taken for it. The socket's own end is one too.
func TestHangup(t *testing.T) {
	for _, how := range []struct {
		name string
		end  func(a, b *sockio.Conn) error
	}{
		{"closed", func(_, b *sockio.Conn) error { return b.Close() }},
		{"stream ended", func(_, b *sockio.Conn) error { return b.CloseWrite() }},
		{"closed here", func(a, _ *sockio.Conn) error { return a.Close() }},
	} {
		a, b := pair(t)
		if err := a.WatchHangup(); err != nil {
			t.Fatal(err)
		}
		seen := make(chan error, 1)
		go func() { seen <- a.WaitHangup() }()
		if _, err := b.Write([]byte("unread")); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-seen:
			t.Fatalf("%s: seen too early: %v", how.name, err)
		case <-time.After(10 * time.Millisecond):
		}
		if a.HungUp() {
			t.Errorf("%s: true too early", how.name)
		}
		if err := how.end(a, b); err != nil {
			t.Fatal(err)
		}
		if !a.HungUp() {
			t.Errorf("%s: not seen at once", how.name)
		}
		select {
		case err := <-seen:
			if err != nil {
				t.Errorf("%s: %v", how.name, err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: not seen", how.name)
		}
	}
}
