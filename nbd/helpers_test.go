package nbd_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"rbd/nbd"
	"rbd/nbd/nbdtest"
)

// patience is how long a test waits for what should happen at once.
const patience = 10 * time.Second

var modes = []nbdtest.Mode{nbdtest.Simple, nbdtest.Structured, nbdtest.Extended}

// newRAM is a device that must have all its buffers back when the test ends.
func newRAM(t testing.TB, size int) *nbdtest.RAM {
	t.Helper()
	ram, err := nbdtest.NewRAM(size)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n := ram.InUse(); n != 0 {
			t.Errorf("%d buffers are still in use", n)
		}
		if err := ram.Close(); err != nil {
			t.Error(err)
		}
	})
	return ram
}

// running is a server with a unix socket.
type running struct {
	*nbd.Server
	addr net.Addr
}

// start serves a device as the export "disk" until the test ends.
func start(t testing.TB, d nbd.Device, options ...func(*nbd.Server)) *running {
	t.Helper()
	s, err := nbd.NewServer([]nbd.Export{{Name: "disk", Description: "a disk", Device: d}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range options {
		o(s)
	}
	r := &running{Server: s}
	r.listen(t, "unix")
	return r
}

// listen adds a listener.
func (r *running) listen(t testing.TB, network string) {
	t.Helper()
	var l net.Listener
	var err error
	if network == "unix" {
		l, err = nbd.ListenUnix(filepath.Join(t.TempDir(), "nbd.sock"))
	} else {
		l, err = net.Listen(network, "127.0.0.1:0")
	}
	if err != nil {
		t.Fatal(err)
	}
	r.addr = l.Addr()
	done := make(chan error, 1)
	go func() { done <- r.Serve(context.Background(), l) }()
	t.Cleanup(func() {
		r.shutdown(t)
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
}

func (r *running) shutdown(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := r.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

// dial connects without any handshake.
func (r *running) dial(t testing.TB) net.Conn {
	t.Helper()
	c, err := net.Dial(r.addr.Network(), r.addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c
}

// open connects and negotiates; base:allocation is selected where it can be.
func (r *running) open(t testing.TB, mode nbdtest.Mode) *nbdtest.Client {
	t.Helper()
	c, err := nbdtest.Open(r.dial(t), "disk", mode, mode != nbdtest.Simple)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// do is one request that must get a reply.
func do(t testing.TB, c *nbdtest.Client, r nbdtest.Request) nbdtest.Reply {
	t.Helper()
	reply, err := c.Do(r)
	if err != nil {
		t.Fatalf("%+v: %v", r, err)
	}
	return reply
}

// expectClosed reads up to the end of the stream, which must come.
func expectClosed(t testing.TB, c net.Conn) []byte {
	t.Helper()
	b, err := io.ReadAll(c)
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		t.Fatal("connection was not closed")
	}
	return b
}

// pattern fills b with bytes that depend on their place and a seed.
func pattern(b []byte, seed int) []byte {
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed*13)
	}
	return b
}
