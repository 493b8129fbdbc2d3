package initiator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"rbd/verbs"
	"rbd/wire"
)

// short bounds a test that should take no time at all.
func short(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// connectScript connects with small memory, and closes in the end.
func connectScript(t *testing.T, s *script, opts Options) (*Controller, error) {
	t.Helper()
	opts.SubNQN, opts.BufferSize, opts.MaxTransfer = testNQN, 1<<20, 64<<10
	opts.NoReconnect = opts.LossTimeout == 0
	c, err := Connect(short(t), fastIWARP(), s.listen(), opts)
	if err == nil {
		t.Cleanup(func() { c.Close(short(t)) })
	}
	return c, err
}

// Protects the limits that a controller sets, and that less than was asked for is
// no error.
func TestControllerLimits(t *testing.T) {
	for _, tc := range []struct {
		name                                 string
		opts                                 Options
		change                               func(*script)
		queues, size, inCapsule, maxTransfer int
	}{
		{"as asked", Options{Queues: 2, QueueSize: 16}, func(*script) {}, 2, 16, 4096, 64 << 10},
		{"MAXCMD", Options{Queues: 1, QueueSize: 100}, func(*script) {}, 1, 64, 4096, 64 << 10},
		{"MQES", Options{Queues: 1, QueueSize: 1000}, func(s *script) { s.id.MAXCMD = 0 }, 1, 128, 4096, 64 << 10},
		{"no in-capsule data", Options{Queues: 1, QueueSize: 16}, func(s *script) { s.id.SGLS &^= wire.SGLSOffset }, 1, 16, 0, 64 << 10},
		{"large capsules", Options{Queues: 1, QueueSize: 16}, func(s *script) { s.id.IOCCSZ = 1 << 31 }, 1, 16, 8192, 64 << 10},
		{"MDTS", Options{Queues: 1, QueueSize: 16}, func(s *script) { s.id.MDTS = 2 }, 1, 16, 4096, 16 << 10},
		{"huge MDTS", Options{Queues: 1, QueueSize: 16}, func(s *script) { s.id.MDTS = 255 }, 1, 16, 4096, 64 << 10},
		{"fewer queues", Options{Queues: 4, QueueSize: 16}, func(s *script) {
			s.hook = func(_ uint16, q *wire.SQE) ([]byte, *wire.CQE, error) {
				if q.Opcode == uint8(wire.AdminSetFeatures) && wire.ParseSetFeatures(q).FID == wire.FeatureNumberOfQueues {
					return nil, &wire.CQE{Result: uint64(wire.NumberOfQueues{NSQ: 1, NCQ: 9}.DW())}, nil
				}
				return nil, nil, nil
			}
		}, 2, 16, 4096, 64 << 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScript(t)
			tc.change(s)
			c, err := connectScript(t, s, tc.opts)
			if err != nil {
				t.Fatal(err)
			}
			i := c.Info()
			if len(c.Queues()) != tc.queues || i.QueueSize != tc.size || i.InCapsule != tc.inCapsule || i.MaxTransfer != tc.maxTransfer {
				t.Errorf("%d queues, %+v", len(c.Queues()), i)
			}
			if n, err := c.Namespace(1); err != nil || n.Size() != 1<<20 || n.BlockSize() != 512 {
				t.Errorf("namespace: %v", err)
			}
			if _, err := c.Namespace(2); !errors.Is(err, ErrNoNamespace) || !strings.Contains(err.Error(), "[1]") {
				t.Errorf("namespace 2: %v", err)
			}
			if err := c.Close(short(t)); err != nil {
				t.Errorf("close: %v", err)
			}
			if c.State() != StateClosed {
				t.Errorf("state %v", c.State())
			}
		})
	}
}

// identifyOnly is a hook that answers one Identify structure.
func identifyOnly(cns wire.CNS, data func(wire.Identify) []byte) func(uint16, *wire.SQE) ([]byte, *wire.CQE, error) {
	return func(_ uint16, q *wire.SQE) ([]byte, *wire.CQE, error) {
		if q.Opcode == uint8(wire.AdminIdentify) && wire.ParseIdentify(q).CNS == cns {
			return data(wire.ParseIdentify(q)), &wire.CQE{}, nil
		}
		return nil, nil, nil
	}
}

// status is a hook that answers commands of one Fabrics type on one queue.
func refuseConnect(qid uint16, c wire.CQE) func(uint16, *wire.SQE) ([]byte, *wire.CQE, error) {
	return func(on uint16, q *wire.SQE) ([]byte, *wire.CQE, error) {
		if on == qid && q.Opcode == wire.OpcodeFabrics && q.FabricsType() == wire.FabricsConnect {
			return nil, &c, nil
		}
		return nil, nil, nil
	}
}

// Protects users from controllers that can't be used: each is refused in words,
// and with what the target said.
func TestControllerRefusals(t *testing.T) {
	invalid := func(inData bool, off uint16) wire.CQE {
		return wire.CQE{Status: wire.StatusConnectInvalidParameters.WithDNR(), Result: uint64(wire.InvalidParameter{InData: inData, Offset: off}.DW0())}
	}
	for _, tc := range []struct {
		name   string
		change func(*script)
		want   string
	}{
		{"unknown NQN", func(s *script) { s.hook = refuseConnect(0, invalid(true, wire.ConnectDataSubNQN)) }, "does not know this subsystem NQN"},
		{"host not allowed", func(s *script) { s.hook = refuseConnect(0, wire.CQE{Status: wire.StatusConnectInvalidHost}) }, "does not allow this host, nqn."},
		{"other field", func(s *script) { s.hook = refuseConnect(0, invalid(false, wire.ConnectKATO)) }, "keep alive timeout"},
		{"busy", func(s *script) { s.hook = refuseConnect(0, wire.CQE{Status: wire.StatusConnectControllerBusy}) }, "busy"},
		{"authentication", func(s *script) {
			s.hook = refuseConnect(0, wire.CQE{Result: uint64(wire.ConnectResult{CNTLID: 7, ATR: true}.DW0())})
		}, "authentication"},
		{"I/O queue", func(s *script) { s.hook = refuseConnect(1, invalid(false, wire.ConnectSQSize)) }, "submission queue size"},
		{"other controller", func(s *script) { s.id.CNTLID = 8 }, "connected as 7"},
		{"discovery controller", func(s *script) { s.id.CNTRLTYPE = wire.ControllerDiscovery }, "no disks"},
		{"no keyed SGLs", func(s *script) { s.id.SGLS = wire.SGLSSupported }, "keyed SGLs"},
		{"data offset", func(s *script) { s.id.ICDOFF = 1 }, "ICDOFF"},
		{"small capsules", func(s *script) { s.id.IOCCSZ = 3 }, "too small"},
		{"no keep alive", func(s *script) { s.id.KAS = 0 }, "keep alive"},
		{"one entry", func(s *script) { s.id.MAXCMD = 1 }, "fewer than 2"},
		{"never ready", func(s *script) {
			s.hook = func(_ uint16, q *wire.SQE) ([]byte, *wire.CQE, error) {
				if q.Opcode == wire.OpcodeFabrics && q.FabricsType() == wire.FabricsPropertySet {
					return nil, &wire.CQE{}, nil
				}
				return nil, nil, nil
			}
		}, "time limit"},
		{"fatal", func(s *script) {
			s.hook = func(_ uint16, q *wire.SQE) ([]byte, *wire.CQE, error) {
				if q.Opcode == wire.OpcodeFabrics && q.FabricsType() == wire.FabricsPropertyGet && wire.ParsePropertyGet(q).Offset == wire.PropertyCSTS {
					return nil, &wire.CQE{Result: uint64(wire.CSTSCFS)}, nil
				}
				return nil, nil, nil
			}
		}, "fatal"},
		{"list goes backwards", func(s *script) {
			s.hook = identifyOnly(wire.CNSActiveNamespaces, func(wire.Identify) []byte { return wire.NSList{2, 1}.Append(nil) })
		}, "1 after 2"},
		{"list never ends", func(s *script) {
			s.hook = identifyOnly(wire.CNSActiveNamespaces, func(i wire.Identify) []byte {
				var l wire.NSList
				for n := range uint32(wire.MaxNSList) {
					l = append(l, i.NSID+n+1)
				}
				return l.Append(nil)
			})
		}, "more than"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScript(t)
			tc.change(s)
			_, err := connectScript(t, s, Options{Queues: 1, QueueSize: 16})
			var ce *ConnectError
			if !errors.As(err, &ce) || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			t.Log(err)
		})
	}
}

// Protects from namespaces that can't be used: they are left out, the others work.
func TestControllerStrangeNamespaces(t *testing.T) {
	s := newScript(t)
	odd := map[uint32]func(*wire.IdentifyNamespace){
		2: func(n *wire.IdentifyNamespace) { n.LBAF[0].LBADS = 3 },
		3: func(n *wire.IdentifyNamespace) { n.LBAF[0].LBADS = 63 },
		4: func(n *wire.IdentifyNamespace) { n.LBAF[0].MS = 8 },
		5: func(n *wire.IdentifyNamespace) { n.NSZE = 1 << 55 },
		6: func(n *wire.IdentifyNamespace) { n.NCAP = 0 },
		7: func(n *wire.IdentifyNamespace) { n.LBAF[0].LBADS = 20 }, // more than a transfer
	}
	for nsid, change := range odd {
		s.ns[nsid] = blocks512(2048)
		change(s.ns[nsid])
	}
	s.ns[9] = blocks512(64)
	s.ns[9].NSATTR = wire.NSATTRWriteProtected
	s.ns[9].LBAF[0].LBADS = 12
	c, err := connectScript(t, s, Options{Queues: 1, QueueSize: 16})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range c.Namespaces() {
		i := n.Info()
		got = append(got, fmt.Sprint(n.NSID(), i.Size, i.BlockSize, i.ReadOnly))
	}
	if want := []string{"1 1048576 512 false", "9 262144 4096 true"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Protects the events: namespaces that come, go, and change their size are told,
// and requests see the new size.
func TestControllerNamespaceEvents(t *testing.T) {
	s := newScript(t)
	changes := make(chan NamespaceChange, 8)
	c, err := connectScript(t, s, Options{Queues: 1, QueueSize: 16, OnNamespaceChange: func(ch NamespaceChange) { changes <- ch }})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(kind ChangeKind, nsid uint32) {
		t.Helper()
		select {
		case ch := <-changes:
			if ch.Kind != kind || ch.Namespace.NSID() != nsid {
				t.Errorf("namespace %d %v, want %d %v", ch.Namespace.NSID(), ch.Kind, nsid, kind)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("not told that namespace %d was %v", nsid, kind)
		}
	}
	happen := func(change func()) {
		t.Helper()
		s.mu.Lock()
		change()
		s.mu.Unlock()
		for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			s.mu.Lock()
			n := len(s.events)
			s.mu.Unlock()
			if n > 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatal("the host does not wait for events")
			}
		}
		s.event(wire.NamespaceChanged())
	}
	n, err := c.Namespace(1)
	if err != nil {
		t.Fatal(err)
	}
	happen(func() { s.ns[1] = blocks512(4096) })
	expect(NamespaceChanged, 1)
	if n.Size() != 2<<20 {
		t.Errorf("size %d", n.Size())
	}
	happen(func() { s.ns[3] = blocks512(8) })
	expect(NamespaceAdded, 3)
	happen(func() { delete(s.ns, 1); delete(s.ns, 3) })
	expect(NamespaceRemoved, 1)
	expect(NamespaceRemoved, 3)
	if err := n.Flush(short(t)); !errors.Is(err, ErrNoNamespace) {
		t.Errorf("flush of a namespace that is gone: %v", err)
	}
}

// Protects from a controller that stops answering: keep alive, admin and I/O time
// limits cut the connection, and all requests end.
func TestControllerSilence(t *testing.T) {
	for _, tc := range []struct {
		name string
		opts Options
		mute func(qid uint16, q *wire.SQE) bool
		want string
	}{
		{"keep alive", Options{KeepAlive: 200 * time.Millisecond}, func(qid uint16, q *wire.SQE) bool {
			return qid == 0 && q.Opcode == uint8(wire.AdminKeepAlive) || qid == 1 && q.Opcode == uint8(wire.IOFlush)
		}, "keep alive"},
		{"I/O", Options{IOTimeout: 200 * time.Millisecond}, func(qid uint16, q *wire.SQE) bool {
			return qid == 1 && q.Opcode == uint8(wire.IOFlush)
		}, "queue 1: flush not answered"},
		{"admin", Options{IOTimeout: time.Second, AdminTimeout: 200 * time.Millisecond, KeepAlive: 100 * time.Millisecond}, func(qid uint16, q *wire.SQE) bool {
			return qid == 0 && q.Opcode == uint8(wire.AdminKeepAlive) || qid == 1 && q.Opcode == uint8(wire.IOFlush)
		}, "not answered"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScript(t)
			s.hook = func(qid uint16, q *wire.SQE) ([]byte, *wire.CQE, error) {
				if q.Opcode != wire.OpcodeFabrics && tc.mute(qid, q) {
					return nil, nil, errSilence
				}
				return nil, nil, nil
			}
			tc.opts.Queues, tc.opts.QueueSize = 1, 4
			c, err := connectScript(t, s, tc.opts)
			if err != nil {
				t.Fatal(err)
			}
			n, _ := c.Namespace(1)
			errs := make(chan error, 8)
			begin := time.Now()
			for range 8 { // more than slots
				go func() { errs <- n.Flush(context.Background()) }()
			}
			for range 8 {
				if err := <-errs; !errors.Is(err, ErrConnectionLost) || !errors.Is(err, ErrTimeout) || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %v, want %q", err, tc.want)
				}
			}
			if d := time.Since(begin); d > 5*time.Second {
				t.Errorf("took %v", d)
			}
			<-c.Lost()
			if c.State() != StateLost {
				t.Errorf("state %v", c.State())
			}
			if err := n.Flush(context.Background()); !errors.Is(err, ErrConnectionLost) {
				t.Errorf("later flush: %v", err)
			}
			if err := c.Close(short(t)); err != nil {
				t.Errorf("close: %v", err)
			}
			if err := n.Flush(context.Background()); !errors.Is(err, ErrClosed) {
				t.Errorf("flush after close: %v", err)
			}
		})
	}
}

// Protects the keep-alive loop: an idle connection stays, because commands are
// sent in time.
func TestControllerKeepAlive(t *testing.T) {
	s := newScript(t)
	var n atomic.Int32
	s.hook = func(qid uint16, q *wire.SQE) ([]byte, *wire.CQE, error) {
		if qid == 0 && q.Opcode == uint8(wire.AdminKeepAlive) {
			n.Add(1)
		}
		return nil, nil, nil
	}
	c, err := connectScript(t, s, Options{Queues: 1, QueueSize: 4, KeepAlive: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); n.Load() < 3 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	if n.Load() < 3 || c.State() != StateLive {
		t.Errorf("%d keep alives, state %v", n.Load(), c.State())
	}
}

// Protects Close: what is out is finished, new requests are refused, the
// controller is told, and buffers that are still lent are not forgotten.
func TestControllerClose(t *testing.T) {
	s := newScript(t)
	release := make(chan struct{})
	s.hook = func(qid uint16, q *wire.SQE) ([]byte, *wire.CQE, error) {
		if qid == 1 && q.Opcode == uint8(wire.IOFlush) {
			<-release
		}
		return nil, nil, nil
	}
	c, err := connectScript(t, s, Options{Queues: 1, QueueSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	n, flushed := flushOut(t, c)
	buf := lend(t, c)
	closed := make(chan error, 2)
	for range 2 { // the second one must not disturb the first
		go func() { closed <- c.Close(short(t)) }()
	}
	for c.State() != StateClosing {
		time.Sleep(time.Millisecond)
	}
	if err := n.Flush(context.Background()); !errors.Is(err, ErrClosed) {
		t.Errorf("flush while closing: %v", err)
	}
	close(release)
	if err := <-flushed; err != nil {
		t.Errorf("flush that was out: %v", err)
	}
	for range 2 {
		if err := <-closed; !errors.Is(err, verbs.ErrBusy) {
			t.Errorf("close with a buffer lent: %v", err)
		}
	}
	s.mu.Lock()
	if s.csts.SHST() != wire.ShutdownComplete {
		t.Error("the controller was not told of the shutdown")
	}
	s.mu.Unlock()
	buf()
	if err := c.Close(short(t)); err != nil {
		t.Errorf("second close: %v", err)
	}
	if err := c.Close(short(t)); err != nil {
		t.Errorf("third close: %v", err)
	}
}

// Protects Close from a controller that does not finish: the context bounds it.
func TestControllerCloseCut(t *testing.T) {
	s := newScript(t)
	s.hook = func(qid uint16, q *wire.SQE) ([]byte, *wire.CQE, error) {
		if qid == 1 && q.Opcode == uint8(wire.IOFlush) {
			return nil, nil, errSilence
		}
		return nil, nil, nil
	}
	c, err := connectScript(t, s, Options{Queues: 1, QueueSize: 4})
	if err != nil {
		t.Fatal(err)
	}
	_, flushed := flushOut(t, c)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := c.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close: %v", err)
	}
	if err := <-flushed; !errors.Is(err, ErrClosed) {
		t.Errorf("flush: %v", err)
	}
}

// flushOut has a flush out on the only queue; its outcome comes by the channel.
func flushOut(t *testing.T, c *Controller) (*Namespace, <-chan error) {
	t.Helper()
	n := namespace(t, c, 1)
	flushed := make(chan error, 1)
	go func() { flushed <- n.Flush(context.Background()) }()
	for c.Queues()[0].idle() {
		time.Sleep(time.Millisecond)
	}
	return n, flushed
}
