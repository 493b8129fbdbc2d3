package initiator

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"rbd/target"
	"rbd/target/backend"
	"rbd/verbs"
	"rbd/wire"
)

// disks is a target of this project with namespaces 1, 2, ... on the backends.
type disks struct {
	t      *testing.T
	target *target.Target
	addr   verbs.Addr
	stop   context.CancelFunc // ends listening
	ended  chan struct{}
}

func serve(t *testing.T, cfg target.Config, policy target.AccessPolicy, backends ...backend.Backend) *disks {
	t.Helper()
	tg, err := target.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range backends {
		if _, err := tg.AddNamespace(target.Export{NQN: testNQN, NSID: uint32(i + 1), Backend: b}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	l, err := fastIWARP().Listen(ctx, addrOf(t, "127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	d := &disks{t: t, target: tg, addr: l.Addr(), stop: cancel, ended: make(chan struct{})}
	go func() {
		defer close(d.ended)
		if err := tg.Serve(ctx, l, policy); err != nil && ctx.Err() == nil {
			t.Errorf("serve: %v", err)
		}
	}()
	t.Cleanup(func() {
		d.kill()
		l.Close()
		<-d.ended
	})
	return d
}

// kill ends the target and its connections.
func (d *disks) kill() {
	d.stop()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := d.target.Shutdown(ctx); err != nil && !errors.Is(err, target.ErrShutdown) {
		d.t.Errorf("shutdown: %v", err)
	}
}

// connect connects, and closes in the end.
func (d *disks) connect(opts Options) *Controller {
	d.t.Helper()
	opts.SubNQN, opts.NoReconnect = testNQN, opts.LossTimeout == 0
	c, err := Connect(short(d.t), fastIWARP(), d.addr, opts)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		if err := c.Close(short(d.t)); err != nil {
			d.t.Errorf("close: %v", err)
		}
	})
	return c
}

// namespace is the disk with that number.
func namespace(t *testing.T, c *Controller, nsid uint32) *Namespace {
	t.Helper()
	n, err := c.Namespace(nsid)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func ram(t *testing.T, size int64, block int) *backend.RAM {
	t.Helper()
	b, err := backend.NewRAM(size, block)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var anyHost = target.AccessPolicy{AnyHost: true}

// lineWriter hands on what is logged.
type lineWriter chan<- string

func (w lineWriter) Write(p []byte) (int, error) {
	select {
	case w <- string(p):
	default:
	}
	return len(p), nil
}

// Protects what users see of a disk.
func TestTargetInfo(t *testing.T) {
	d := serve(t, target.Config{QueueDepth: 32, IOQueues: 2, InCapsuleBytes: 4096}, anyHost,
		ram(t, 1<<20, 512), backend.ReadOnly(ram(t, 2<<20, 4096)))
	told := make(chan string, 16)
	c := d.connect(Options{Queues: 8, QueueSize: 128, Logger: slog.New(slog.NewTextHandler(lineWriter(told), nil))})
	for _, want := range []string{"fewer I/O queues than asked for\" asked=8 granted=2", "smaller than asked for\" asked=128 granted=32"} {
		select {
		case line := <-told:
			if !strings.Contains(line, want) {
				t.Errorf("the log has %q, want %q", line, want)
			}
		case <-short(t).Done():
			t.Errorf("the log does not have %q", want)
		}
	}
	if i := c.Info(); len(c.Queues()) != 2 || i.QueueSize != 32 || i.InCapsule != 4096 || i.MaxTransfer != 1<<20 || i.Model != "rbd-target" {
		t.Errorf("%d queues, %+v", len(c.Queues()), i)
	}
	a, b := namespace(t, c, 1).Info(), namespace(t, c, 2).Info()
	if a.Size != 1<<20 || a.BlockSize != 512 || a.ReadOnly || !a.CanTrim || !a.CanWriteZeroes || a.UUID.IsZero() {
		t.Errorf("%+v", a)
	}
	if b.Size != 2<<20 || b.BlockSize != 4096 || !b.ReadOnly || b.UUID == a.UUID {
		t.Errorf("%+v", b)
	}
	if err := namespace(t, c, 2).WriteAt(short(t), make([]byte, 4096), 0, 0); !errors.Is(err, ErrReadOnly) {
		t.Errorf("write: %v", err)
	}
}

// Protects the words of our own target's refusals.
func TestTargetRefusals(t *testing.T) {
	host := Host{NQN: "nqn.2020-01.org.example:host", ID: wire.UUID{1}}
	d := serve(t, target.Config{}, target.AccessPolicy{Hosts: []string{host.NQN}}, ram(t, 1<<20, 512))
	for name, tc := range map[string]struct {
		opts Options
		want string
	}{
		"unknown NQN":      {Options{SubNQN: testNQN + "x", Host: host}, "does not know this subsystem NQN"},
		"host not allowed": {Options{SubNQN: testNQN}, "does not allow this host"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Connect(short(t), fastIWARP(), d.addr, tc.opts)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	c := d.connect(Options{Host: host, Queues: 1})
	if err := namespace(t, c, 1).Flush(short(t)); err != nil {
		t.Error(err)
	}
}

// Protects discovery of our own target.
func TestTargetDiscover(t *testing.T) {
	d := serve(t, target.Config{}, anyHost, ram(t, 1<<20, 512))
	log, err := Discover(short(t), fastIWARP(), d.addr, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range log.Entries {
		if e.SUBNQN.String() == testNQN && e.SUBTYPE == wire.SubsystemNVM && wire.Text(e.TRSVCID[:]) == d.addr.Port {
			return
		}
	}
	t.Errorf("%s is not in %+v", testNQN, log)
}

// Protects the way of namespace changes from our own target.
func TestTargetNamespaceEvents(t *testing.T) {
	d := serve(t, target.Config{}, anyHost, ram(t, 1<<20, 512))
	changes := make(chan NamespaceChange, 8)
	c := d.connect(Options{Queues: 1, OnNamespaceChange: func(ch NamespaceChange) { changes <- ch }})
	expect := func(kind ChangeKind) {
		t.Helper()
		select {
		case ch := <-changes:
			if ch.Kind != kind || ch.Namespace.NSID() != 2 {
				t.Errorf("namespace %d %v, want 2 %v", ch.Namespace.NSID(), ch.Kind, kind)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("not told that a namespace was %v", kind)
		}
	}
	for range 2 {
		if _, err := d.target.AddNamespace(target.Export{NQN: testNQN, NSID: 2, Backend: ram(t, 4096, 512)}); err != nil {
			t.Fatal(err)
		}
		expect(NamespaceAdded)
		if err := namespace(t, c, 2).WriteAt(short(t), make([]byte, 512), 0, FUA); err != nil {
			t.Error(err)
		}
		if err := d.target.RemoveNamespace(short(t), testNQN, 2); err != nil {
			t.Fatal(err)
		}
		expect(NamespaceRemoved)
	}
}
