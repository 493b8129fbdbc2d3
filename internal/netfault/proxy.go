package netfault

import (
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Proxy passes TCP connections on to a server. Its methods are safe for concurrent
// use.
type Proxy struct {
	l    net.Listener
	work sync.WaitGroup

	mu     sync.Mutex
	thawed sync.Cond // on mu
	frozen bool      // nothing passes
	mute   bool      // nothing passes from server to client
	closed bool
	refuse bool
	server string
	pairs  map[*pair]struct{}
	// strays are the server's ends of connections that are half open.
	strays []net.Conn
}

// pair is one connection: its two ends.
type pair struct {
	client, server net.Conn
}

// New makes a proxy on a free port of the loopback, for the server at an address
// (host:port).
func New(server string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	p := &Proxy{l: l, server: server, pairs: make(map[*pair]struct{})}
	p.thawed.L = &p.mu
	p.work.Go(p.accept)
	return p, nil
}

// Addr is where clients connect to (host:port).
func (p *Proxy) Addr() string { return p.l.Addr().String() }

// SetServer sends later connections to another server.
func (p *Proxy) SetServer(addr string) {
	p.mu.Lock()
	p.server = addr
	p.mu.Unlock()
}

// Refuse says whether later connections are closed at once, as if the server's port
// was closed.
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	p.refuse = on
	p.mu.Unlock()
}

// Cut resets all connections, at both ends. What is on the way is lost.
func (p *Proxy) Cut() {
	for _, x := range p.take() {
		reset(x.client)
		reset(x.server)
	}
}

// HalfOpen resets all connections at the client's end. The server hears nothing of
// it, until Close.
func (p *Proxy) HalfOpen() {
	all := p.take()
	p.mu.Lock()
	for _, x := range all {
		p.strays = append(p.strays, x.server)
	}
	p.mu.Unlock()
	for _, x := range all {
		reset(x.client)
	}
}

// Freeze passes nothing on any more, in either direction, until Thaw. New
// connections are accepted, and get no further.
func (p *Proxy) Freeze() {
	p.mu.Lock()
	p.frozen = true
	p.mu.Unlock()
}

// FreezeReplies passes nothing on from the server until Thaw: a client that has
// stopped taking anything.
func (p *Proxy) FreezeReplies() {
	p.mu.Lock()
	p.mute = true
	p.mu.Unlock()
}

// Thaw ends Freeze and FreezeReplies. What was held is delivered.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	p.frozen, p.mute = false, false
	p.mu.Unlock()
	p.thawed.Broadcast()
}

// Close ends the proxy and all connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	strays := p.strays
	p.strays = nil
	p.mu.Unlock()
	p.thawed.Broadcast()
	p.l.Close()
	p.Cut()
	for _, c := range strays {
		reset(c)
	}
	p.work.Wait()
}

// take takes all connections out of the proxy's care.
func (p *Proxy) take() []*pair {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []*pair
	for x := range p.pairs {
		all = append(all, x)
	}
	clear(p.pairs)
	return all
}

// reset closes a connection so that its peer sees an error.
func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.Close()
}

// pass waits while the proxy is frozen, or, with a reply, holds replies; false when it
// is closed.
func (p *Proxy) pass(reply bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for (p.frozen || p.mute && reply) && !p.closed {
		p.thawed.Wait()
	}
	return !p.closed
}

func (p *Proxy) accept() {
	for {
		client, err := p.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			p.work.Go(func() { p.serve(client) })
		}
	}
}

// serve joins a client with the server.
func (p *Proxy) serve(client net.Conn) {
	if !p.pass(false) {
		reset(client)
		return
	}
	p.mu.Lock()
	addr, refuse := p.server, p.refuse
	p.mu.Unlock()
	if refuse {
		reset(client)
		return
	}
	server, err := net.Dial("tcp", addr)
	if err != nil {
		reset(client)
		return
	}
	x := &pair{client, server}
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.pairs[x] = struct{}{}
	}
	p.mu.Unlock()
	if closed {
		reset(client)
		reset(server)
		return
	}
	var other sync.WaitGroup
	other.Go(func() { p.copy(x, client, server) })
	p.copy(x, server, client)
	other.Wait()
	p.end(x, func(c net.Conn) { c.Close() })
}

// copy passes one direction on, to its end or that of the connection.
func (p *Proxy) copy(x *pair, from, to net.Conn) {
	buf := make([]byte, 256<<10)
	for {
		n, err := from.Read(buf)
		if !p.pass(from == x.server) {
			return
		}
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				p.end(x, reset)
				return
			}
		}
		if err == nil {
			continue
		}
		if tcp, ok := to.(*net.TCPConn); ok && errors.Is(err, io.EOF) && tcp.CloseWrite() == nil {
			return // the other direction may go on
		}
		p.end(x, reset)
		return
	}
}

// end closes both ends of a connection, unless somebody else has taken it.
func (p *Proxy) end(x *pair, closeConn func(net.Conn)) {
	p.mu.Lock()
	_, mine := p.pairs[x]
	delete(p.pairs, x)
	p.mu.Unlock()
	if mine {
		closeConn(x.client)
		closeConn(x.server)
	}
}
