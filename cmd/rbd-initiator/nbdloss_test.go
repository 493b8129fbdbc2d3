package main

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"rbd/initiator"
	"rbd/internal/netfault"
	"rbd/nbd"
	"rbd/nbd/nbdtest"
	"rbd/target"
	"rbd/target/backend"
	"rbd/verbs"
	"rbd/verbs/iwarp"
)

const lossNQN = "nqn.2026-11.org.example:loss"

// lossyTarget is a target behind a proxy, which can go and come back with its disk.
type lossyTarget struct {
	t     *testing.T
	proxy *netfault.Proxy
	disk  backend.Backend
	leave func() // nil while it is away
}

// lastingDisk is there for the next target, too.
type lastingDisk struct{ backend.Backend }

func (lastingDisk) Close() error { return nil }

func newLossyTarget(t *testing.T) *lossyTarget {
	t.Helper()
	p, err := netfault.New("127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	disk, err := backend.NewRAM(8<<20, 0)
	if err != nil {
		t.Fatal(err)
	}
	l := &lossyTarget{t: t, proxy: p, disk: disk}
	l.come()
	t.Cleanup(l.away)
	return l
}

// come lets the target be there.
func (l *lossyTarget) come() {
	l.t.Helper()
	tg, err := target.New(target.Config{})
	if err != nil {
		l.t.Fatal(err)
	}
	if _, err := tg.AddNamespace(target.Export{NQN: lossNQN, NSID: 1, Backend: lastingDisk{l.disk}}); err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	listener, err := iwarp.New().Listen(ctx, verbs.Addr{Fabric: "iwarp", Host: "127.0.0.1", Port: "0"})
	if err != nil {
		l.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tg.Serve(ctx, listener, target.AccessPolicy{AnyHost: true})
	}()
	l.leave = func() {
		cancel()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := tg.Shutdown(ctx); err != nil {
			l.t.Error(err)
		}
		<-ended
	}
	l.proxy.SetServer(net.JoinHostPort(listener.Addr().Host, listener.Addr().Port))
	l.proxy.Refuse(false)
}

// away takes the target away.
func (l *lossyTarget) away() {
	if l.leave == nil {
		return
	}
	l.proxy.Refuse(true)
	l.proxy.Cut()
	l.leave()
	l.leave = nil
}

// connect connects by the proxy, with two I/O queues.
func (l *lossyTarget) connect() *initiator.Controller {
	l.t.Helper()
	host, port, err := net.SplitHostPort(l.proxy.Addr())
	if err != nil {
		l.t.Fatal(err)
	}
	c, err := initiator.Connect(l.t.Context(), iwarp.New(), verbs.Addr{Fabric: "iwarp", Host: host, Port: port},
		initiator.Options{SubNQN: lossNQN, Queues: 2, QueueSize: 8, ReconnectDelay: 20 * time.Millisecond})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := c.Close(ctx); err != nil {
			l.t.Error(err)
		}
	})
	return c
}

// serveNBD makes the first namespace of a controller an NBD export, and answers what
// opens it.
func serveNBD(t *testing.T, c *initiator.Controller) func() *nbdtest.Client {
	t.Helper()
	server, err := nbd.NewServer([]nbd.Export{{Name: "1", Device: &nbdDevice{ctrl: c, ns: c.Namespaces()[0]}}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	listener, err := nbd.ListenUnix(filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(context.Background(), listener) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return func() *nbdtest.Client {
		t.Helper()
		conn, err := net.Dial("unix", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		conn.SetDeadline(time.Now().Add(20 * time.Second))
		client, err := nbdtest.Open(conn, "1", nbdtest.Simple, false)
		if err != nil {
			t.Fatal(err)
		}
		return client
	}
}

// first reads the first byte of a block.
func first(t *testing.T, c *nbdtest.Client, block uint64) byte {
	t.Helper()
	r, err := c.Do(nbdtest.Request{Cmd: nbdtest.CmdRead, Offset: block * 4096, Length: 4096})
	if err != nil || r.Error != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	return r.Data[0]
}

// Protects a client's answered writes from those of the client before it, which was
// killed while the target was away: with some writes waiting, or with so many that the
// server had no slots for them all. The rest has to fit into the socket.
func TestDeadClientOverLoss(t *testing.T) {
	for name, before := range map[string]uint64{"few": 2, "more than there are slots": nbd.MaxRequests + 10} {
		t.Run(name, func(t *testing.T) {
			l := newLossyTarget(t)
			c := l.connect()
			open := serveNBD(t, c)
			write := func(c *nbdtest.Client, block uint64, with string) {
				t.Helper()
				if err := c.Send(nbdtest.Request{
					Cmd: nbdtest.CmdWrite, Cookie: block, Offset: block * 4096, Payload: bytes.Repeat([]byte(with), 4096),
				}); err != nil {
					t.Fatal(err)
				}
			}
			dead := open()
			l.away()
			for c.State() != initiator.StateReconnecting {
				time.Sleep(time.Millisecond)
			}
			for block := range before {
				write(dead, 1+block, "x")
			}
			write(dead, 0, "A")
			time.Sleep(20 * time.Millisecond) // mostly, the server has read what it can then
			dead.Close()
			next := open()
			write(next, 0, "B")
			time.Sleep(20 * time.Millisecond)
			l.come()
			if r, err := next.Recv(); err != nil || r.Error != 0 {
				t.Fatalf("%+v, %v", r, err)
			}
			for range 20 {
				if got := first(t, next, 0); got != 'B' {
					t.Fatalf("the block is %q: a write of the dead client came after an answered one", got)
				}
				time.Sleep(time.Millisecond)
			}
			if got := first(t, next, 1); got != 0 {
				t.Errorf("a write of the dead client was sent when the target was back: %q", got)
			}
		})
	}
}
