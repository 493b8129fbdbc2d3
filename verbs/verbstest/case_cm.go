package verbstest

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"rbd/verbs"
)

var cmCases = []Case{
	{"ListenPortZero", testListenPortZero},
	{"ListenTwice", testListenTwice},
	{"ListenAllAddresses", testListenAllAddresses},
	{"ListenIPv6", testListenIPv6},
	{"ListenerClose", testListenerClose},
	{"ListenerCloseDropsRequests", testListenerCloseDropsRequests},
	{"ListenerAddrFreed", testListenerAddrFreed},
	{"GetRequestContext", testGetRequestContext},
	{"ConnAddrs", testConnAddrs},
	{"ConnectClosedPort", testConnectClosedPort},
	{"ConnectNotRDMA", testConnectNotRDMA},
	{"ConnectCancelled", testConnectCancelled},
	{"ConnectTimeout", testConnectTimeout},
	{"ConnectWithoutQP", testConnectWithoutQP},
	{"ConnectTwice", testConnectTwice},
	{"AcceptAfterClientGone", testAcceptAfterClientGone},
	{"RequestsQueue", testRequestsQueue},
	{"ManyConnections", testManyConnections},
}

// wantConnectFailed checks that Connect failed, and what must be so then.
func wantConnectFailed(e *Env, s *Side, err error) {
	e.T.Helper()
	if err == nil {
		e.T.Fatal("the connection was made")
	}
	if s.QP.State() != verbs.QPStateERR {
		e.T.Errorf("QP in %v after Connect failed (%v), want ERR", s.QP.State(), err)
	}
}

// Protects tests and daemons that take a free port: Addr tells which.
func testListenPortZero(t *testing.T, e *Env) {
	a, b := e.Listen(), e.Listen()
	if a.Addr().Port == "0" || a.Addr().Port == "" || a.Addr().Port == b.Addr().Port {
		t.Errorf("listeners on port 0 are on ports %q and %q", a.Addr().Port, b.Addr().Port)
	}
	if got, want := a.Addr().Fabric, e.Fabric.Listen.Fabric; got != want {
		t.Errorf("the listener's address has fabric %q, want %q", got, want)
	}
	if again, err := verbs.ParseAddr(a.Addr().String(), "1"); err != nil || again.String() != a.Addr().String() {
		t.Errorf("the listener's address %v reads back as %v, error %v", a.Addr(), again, err)
	}
}

// Protects the first listener of a port.
func testListenTwice(t *testing.T, e *Env) {
	l := e.Listen()
	second, err := e.Provider.Listen(e.Context(), l.Addr())
	if err == nil {
		e.Destroy("second listener", second.Close)
		t.Fatalf("two listeners on %v", l.Addr())
	}
}

// Protects servers that listen on every address of the host.
func testListenAllAddresses(t *testing.T, e *Env) {
	addr := e.Fabric.Listen
	addr.Host = ""
	l := e.ListenOn(addr)
	addr = e.Fabric.Listen
	addr.Port = l.Addr().Port
	e.PairOn(l, addr, nil).RoundTrip()
}

// Protects IPv6, whose addresses have colons.
func testListenIPv6(t *testing.T, e *Env) {
	e.Need(e.Fabric.ListenIPv6.Host != "", "the host has no IPv6")
	l := e.ListenOn(e.Fabric.ListenIPv6)
	e.PairOn(l, l.Addr(), nil).RoundTrip()
}

// Protects shutdown of servers: GetRequest ends, connections live on.
func testListenerClose(t *testing.T, e *Env) {
	l := e.Listen()
	p := e.PairOn(l, l.Addr(), nil)
	ended := e.Go(func() error { _, err := l.GetRequest(context.Background()); return err })
	time.Sleep(calm)
	if err := l.Close(); err != nil {
		t.Errorf("close a listener: %v", err)
	}
	e.WantErr("GetRequest when the listener is closed", ended(), verbs.ErrClosed)
	_, err := l.GetRequest(e.Context())
	e.WantErr("GetRequest of a closed listener", err, verbs.ErrClosed)
	if err := l.Close(); err != nil {
		e.WantErr("close a closed listener", err, verbs.ErrClosed)
	}
	p.RoundTrip()
}

// Protects clients of a server that shuts down: requests that nobody took are
// refused, and don't hang.
func testListenerCloseDropsRequests(t *testing.T, e *Env) {
	l := e.Listen()
	var clients []*Side
	var connected []func() error
	for range 5 {
		c := e.Active(l.Addr(), nil)
		clients = append(clients, c)
		connected = append(connected, e.Go(func() error { return c.Connect(e.Context()) }))
	}
	time.Sleep(calm)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for i, c := range clients {
		err := connected[i]()
		wantConnectFailed(e, c, err)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("client %d waited until its time was over", i)
		}
	}
}

// Protects restarts: a closed listener's address can be listened on at once,
// even while connections made through it live.
func testListenerAddrFreed(t *testing.T, e *Env) {
	l := e.Listen()
	e.PairOn(l, l.Addr(), nil).RoundTrip()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l2 := e.ListenOn(l.Addr())
	e.PairOn(l2, l2.Addr(), nil).RoundTrip()
}

// Protects accept loops that are told to end.
func testGetRequestContext(t *testing.T, e *Env) {
	l := e.Listen()
	ctx, cancel := context.WithCancel(context.Background())
	ended := e.Go(func() error { _, err := l.GetRequest(ctx); return err })
	time.Sleep(calm)
	cancel()
	e.WantErr("GetRequest when its context ends", ended(), context.Canceled)
	e.PairOn(l, l.Addr(), nil).RoundTrip()
}

// Protects logs and access rules: both ends know the same two addresses.
func testConnAddrs(t *testing.T, e *Env) {
	l := e.Listen()
	p := e.PairOn(l, l.Addr(), nil)
	c, s := p.Client.ID, p.Server.ID
	if got, want := c.RemoteAddr().String(), l.Addr().HostPort(); got != want {
		t.Errorf("client's remote address %v, listener's %v", got, want)
	}
	for _, tt := range []struct {
		what      string
		got, want net.Addr
	}{
		{"the server's local address", s.LocalAddr(), c.RemoteAddr()},
		{"the server's remote address", s.RemoteAddr(), c.LocalAddr()},
	} {
		if tt.got.String() != tt.want.String() {
			t.Errorf("%s is %v, the client says %v", tt.what, tt.got, tt.want)
		}
	}
}

// Protects users who mistype a port: the error comes at once.
func testConnectClosedPort(t *testing.T, e *Env) {
	l := e.Listen()
	addr := l.Addr()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c := e.Active(addr, nil)
	c.PostEmptyRecvs(1, 3)
	err := c.Connect(e.Context())
	wantConnectFailed(e, c, err)
	if errors.Is(err, context.DeadlineExceeded) {
		t.Error("a closed port was only noticed by the time-out")
	}
	c.Recv.Flushed(1, 3)
}

// Protects users who connect to some other service: garbage is refused with an
// error, silence ends with the context.
func testConnectNotRDMA(t *testing.T, e *Env) {
	e.Need(e.NotRDMA != nil, "nothing but RDMA can be met on its fabric")
	for _, greeting := range []string{"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "SSH-2.0-OpenSSH_9.2p1\r\n Debian GNU/Linux, and much more text"} {
		c := e.Active(e.NotRDMA(t, []byte(greeting)), nil)
		err := c.Connect(e.Context())
		wantConnectFailed(e, c, err)
		if errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%q was not seen to be something else", greeting)
		}
	}
	c := e.Active(e.NotRDMA(t, nil), nil)
	ctx, cancel := context.WithTimeout(context.Background(), 4*calm)
	defer cancel()
	err := c.Connect(ctx)
	wantConnectFailed(e, c, err)
	e.WantErr("connect to something silent", err, context.DeadlineExceeded)
}

// Protects programs that are told to end while they connect.
func testConnectCancelled(t *testing.T, e *Env) {
	l := e.Listen()
	ctx, cancel := context.WithCancel(context.Background())
	c := e.Active(l.Addr(), nil)
	c.PostEmptyRecvs(1, 3)
	connected := e.Go(func() error { return c.Connect(ctx) })
	time.Sleep(calm)
	cancel()
	err := connected()
	wantConnectFailed(e, c, err)
	e.WantErr("connect when its context ends", err, context.Canceled)
	c.Recv.Flushed(1, 3)
	over := e.Active(l.Addr(), nil)
	err = over.Connect(ctx)
	wantConnectFailed(e, over, err)
	e.WantErr("connect when its context has ended", err, context.Canceled)
}

// Protects from servers that never answer a request.
func testConnectTimeout(t *testing.T, e *Env) {
	l := e.Listen()
	c := e.Active(l.Addr(), nil)
	ctx, cancel := context.WithTimeout(context.Background(), 10*calm)
	defer cancel()
	connected := e.Go(func() error { return c.Connect(ctx) })
	e.GetRequest(l)
	err := connected()
	wantConnectFailed(e, c, err)
	e.WantErr("connect to a server that does not answer", err, context.DeadlineExceeded)
}

// Protects from connections without a QP.
func testConnectWithoutQP(t *testing.T, e *Env) {
	l := e.Listen()
	_, err := e.Resolve(l.Addr()).Connect(e.Context(), verbs.ConnParam{})
	e.WantErr("connect without a QP", err, verbs.ErrState, verbs.ErrInvalid)
	c := e.Active(l.Addr(), nil)
	connected := e.Go(func() error { return c.Connect(e.Context()) })
	id := e.GetRequest(l)
	_, err = id.Accept(e.Context(), verbs.ConnParam{})
	e.WantErr("accept without a QP", err, verbs.ErrState, verbs.ErrInvalid)
	e.Destroy("CMID", id.Destroy)
	wantConnectFailed(e, c, connected())
}

// Protects a connection from being made twice, and each side from the calls of
// the other.
func testConnectTwice(t *testing.T, e *Env) {
	p := e.Pair(nil)
	for _, s := range []*Side{p.Client, p.Server} {
		_, err := s.ID.Connect(e.Context(), verbs.ConnParam{})
		e.WantErr(s.name+": connect when connected", err, verbs.ErrState)
		_, err = s.ID.Accept(e.Context(), verbs.ConnParam{})
		e.WantErr(s.name+": accept when connected", err, verbs.ErrState)
		e.WantErr(s.name+": reject when connected", s.ID.Reject(nil), verbs.ErrState)
	}
	p.RoundTrip()
}

// Protects servers whose client has given up before they answer: Accept fails,
// or what it made ends at once.
func testAcceptAfterClientGone(t *testing.T, e *Env) {
	l := e.Listen()
	ctx, cancel := context.WithCancel(context.Background())
	c := e.Active(l.Addr(), nil)
	connected := e.Go(func() error { return c.Connect(ctx) })
	s := e.Passive(l, nil)
	s.PostEmptyRecvs(1, 3)
	cancel()
	wantConnectFailed(e, c, connected())
	e.Destroy("client", c.ID.Destroy)
	e.Within("accept", func() {
		if _, err := s.ID.Accept(e.Context(), s.param); err == nil {
			s.Ended()
		}
	})
	s.Recv.Flushed(1, 3)
}

// Protects servers under a rush: requests wait in line, none is lost.
func testRequestsQueue(t *testing.T, e *Env) {
	const n = 30
	l := e.Listen()
	var connected []func() error
	for i := range n {
		c := e.Active(l.Addr(), func(o *SideOpts) { o.Param.PrivateData = []byte{byte(i)} })
		connected = append(connected, e.Go(func() error { return c.Connect(e.Context()) }))
	}
	time.Sleep(calm)
	seen := map[byte]bool{}
	for range n {
		s := e.Passive(l, nil)
		seen[s.ID.Request().PrivateData[0]] = true
		s.Accept()
	}
	for i, wait := range connected {
		if err := wait(); err != nil || !seen[byte(i)] {
			t.Errorf("client %d: request seen: %v, error %v", i, seen[byte(i)], err)
		}
	}
}

// Protects scale: 200 connections are made at once, all live together, and each
// leads to its own peer.
func testManyConnections(t *testing.T, e *Env) {
	const n = 200
	l := e.Listen()
	clients, servers := make([]*Side, n), make([]*Side, n)
	shared := e.Queue("shared CQ", Waited, min(2*n, e.Device.Attr().MaxCQE), nil)
	pd := e.PD()
	small := func(o *SideOpts) {
		o.PD, o.SendQueue, o.RecvQueue = pd, shared, shared
		o.Cap.MaxSendWR, o.Cap.MaxRecvWR = 2, 2
	}
	var wg sync.WaitGroup
	errs := make([]error, n)
	for i := range clients {
		clients[i] = e.Active(l.Addr(), func(o *SideOpts) { small(o); o.Param.PrivateData = []byte{byte(i), 1} })
		clients[i].PostEmptyRecvs(uint64(i), 1)
	}
	for i, c := range clients {
		wg.Go(func() { errs[i] = c.Connect(e.Context()) })
	}
	for range n {
		s := e.Passive(l, small)
		s.Accept()
		i := s.ID.Request().PrivateData[0]
		if servers[i] != nil {
			t.Fatalf("two requests of client %d", i)
		}
		servers[i] = s
	}
	e.Within("all clients connect", wg.Wait)
	for i, err := range errs {
		if err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
	}
	for _, s := range servers {
		s.Post(verbs.SendWR{})
	}
	for range n {
		wc := shared.Next()
		if wc.Status != verbs.WCSuccess || wc.QPNum != clients[wc.ID].QP.Num() {
			t.Errorf("completion %+v, want one of QP %d", wc, clients[wc.ID].QP.Num())
		}
	}
}
