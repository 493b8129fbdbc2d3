package initiator

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"rbd/verbs"
	"rbd/verbs/iwarp"
	"rbd/wire"
)

const testNQN = "nqn.2026-11.io.rbd:test"

// fastIWARP is a provider that does not wait long for a peer.
func fastIWARP() *iwarp.Provider {
	return iwarp.New(iwarp.WithTimeouts(2*time.Second, 2*time.Second, 200*time.Millisecond))
}

func addrOf(t testing.TB, hostport string) verbs.Addr {
	t.Helper()
	a, err := verbs.ParseAddr(hostport, verbs.DefaultPort)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// tcpPeer accepts TCP connections and serves each with f.
func tcpPeer(t *testing.T, f func(net.Conn)) verbs.Addr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			f(c)
			c.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return addrOf(t, l.Addr().String())
}

// rdmaPeer accepts RDMA connection requests and serves each with f, which owns
// the CMID.
func rdmaPeer(t *testing.T, f func(verbs.CMID)) verbs.Addr {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l, err := fastIWARP().Listen(ctx, addrOf(t, "127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			id, err := l.GetRequest(ctx)
			if err != nil {
				return
			}
			f(id)
		}
	}()
	t.Cleanup(func() { cancel(); l.Close(); <-done })
	return l.Addr()
}

// silent accepts a connection, takes what comes, and never answers.
func silent(t *testing.T) func(verbs.CMID) {
	var open []verbs.CMID
	t.Cleanup(func() {
		for _, id := range open {
			id.Destroy()
		}
	})
	return func(id verbs.CMID) {
		dev := id.Device()
		pd, _ := dev.AllocPD()
		cq, _ := dev.CreateCQ(verbs.CQAttr{Depth: 64})
		mem, _ := verbs.AllocMemory(64 * 64)
		mr, _ := pd.RegMR(mem, verbs.AccessLocalWrite)
		qp, err := id.CreateQP(pd, verbs.QPInitAttr{SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 32}})
		if err != nil {
			t.Error(err)
			return
		}
		for i := range 32 {
			sge := []verbs.SGE{{Addr: mr.Addr() + uint64(64*i), Length: 64, LKey: mr.LKey()}}
			if err := qp.PostRecv([]verbs.RecvWR{{SGEs: sge}}); err != nil {
				t.Error(err)
			}
		}
		if _, err := id.Accept(context.Background(), verbs.ConnParam{InitiatorDepth: 1}); err != nil {
			t.Error(err)
		}
		open = append(open, id)
	}
}

// Protects users from waiting for ever and from riddles: every way in which a
// connection can't be made ends in bounded time with an error that names the
// address and the reason.
func TestConnectTrouble(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := addrOf(t, l.Addr().String())
	l.Close()
	quick := Options{SubNQN: testNQN, ConnectTimeout: 300 * time.Millisecond, IOTimeout: 200 * time.Millisecond, AdminTimeout: 300 * time.Millisecond}
	for _, tc := range []struct {
		name  string
		addr  verbs.Addr
		opts  Options
		is    error
		words []string
	}{
		{"port closed", closed, quick, nil, []string{closed.String(), "refused"}},
		{"unknown host", addrOf(t, "no-such-host.invalid"), quick, nil, []string{"no-such-host.invalid"}},
		{"unknown parameter", addrOf(t, "127.0.0.1?colour=red"), quick, nil, []string{"colour"}},
		{"not an RDMA peer", tcpPeer(t, func(c net.Conn) { io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }), quick, nil, nil},
		{"closes at once", tcpPeer(t, func(net.Conn) {}), quick, nil, nil},
		{"says nothing", tcpPeer(t, func(c net.Conn) { io.Copy(io.Discard, c) }), quick, ErrTimeout, []string{"no RDMA connection after 300ms"}},
		{"refuses with a reason", rdmaPeer(t, func(id verbs.CMID) {
			id.Reject((&wire.CMReject{Reason: wire.RejectNoResources}).Append(nil))
		}), quick, wire.RejectNoResources, []string{"refused the RDMA connection", "no resources"}},
		{"is no NVMe target", rdmaPeer(t, func(id verbs.CMID) { id.Reject([]byte("rbdperf\x01\x00\x00\x00\x01")) }), quick, nil, []string{"is no NVMe target", "rbd-target perf"}},
		{"refuses without a reason", rdmaPeer(t, func(id verbs.CMID) { id.Reject(nil) }), quick, nil, []string{"without a reason"}},
		{"never answers a command", rdmaPeer(t, silent(t)), quick, ErrTimeout, []string{"queue 0", "not answered"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			begin := time.Now()
			c, err := Connect(context.Background(), fastIWARP(), tc.addr, tc.opts)
			if err == nil {
				c.Close(context.Background())
				t.Fatal("connected")
			}
			var ce *ConnectError
			if !errors.As(err, &ce) || tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("got %#v: %v", err, err)
			}
			for _, w := range append(tc.words, testNQN) {
				if !strings.Contains(err.Error(), w) {
					t.Errorf("got %q, which does not say %q", err, w)
				}
			}
			if d := time.Since(begin); d > 5*time.Second {
				t.Errorf("took %v", d)
			}
			t.Log(err)
		})
	}
}

// Protects the caller's context: when it ends, Connect returns at once.
func TestConnectCancel(t *testing.T) {
	for name, addr := range map[string]verbs.Addr{
		"while dialling":              tcpPeer(t, func(c net.Conn) { io.Copy(io.Discard, c) }),
		"while a command is answered": rdmaPeer(t, silent(t)),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			begin := time.Now()
			_, err := Connect(ctx, fastIWARP(), addr, Options{SubNQN: testNQN})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			if d := time.Since(begin); d > 2*time.Second {
				t.Errorf("took %v", d)
			}
		})
	}
}

// Protects from dialling with what can't work.
func TestConnectOptions(t *testing.T) {
	for name, tc := range map[string]struct {
		opts Options
		want string
	}{
		"no NQN":        {Options{}, "subsystem NQN"},
		"bad NQN":       {Options{SubNQN: "disk1"}, "subsystem NQN"},
		"discovery NQN": {Options{SubNQN: wire.DiscoveryNQN}, "has no disks"},
		"bad host NQN":  {Options{SubNQN: testNQN, Host: Host{NQN: "x", ID: wire.UUID{1}}}, "host NQN"},
		"no host ID":    {Options{SubNQN: testNQN, Host: Host{NQN: testNQN}}, "host ID"},
		"queues":        {Options{SubNQN: testNQN, Queues: 1000}, "queues"},
		"negative":      {Options{SubNQN: testNQN, Queues: -1}, "queues"},
		"queue size":    {Options{SubNQN: testNQN, QueueSize: 1}, "queue size"},
		"keep alive":    {Options{SubNQN: testNQN, KeepAlive: time.Nanosecond}, "keep-alive"},
		"delay":         {Options{SubNQN: testNQN, ReconnectDelay: -1}, "reconnect delay"},
		"time limit":    {Options{SubNQN: testNQN, IOTimeout: -1}, "time limits"},
		"transfer":      {Options{SubNQN: testNQN, MaxTransfer: 5000}, "maximum transfer"},
		"buffers":       {Options{SubNQN: testNQN, BufferSize: 4096}, "buffer size"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Connect(context.Background(), nil, verbs.Addr{}, tc.opts)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
