package iwarp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"rbd/verbs"
)

// listener accepts TCP connections and reads their MPA requests, each on a
// goroutine of its own; maxPending bounds them.
type listener struct {
	dev  *device
	addr verbs.Addr
	crc  bool
	tcp  *net.TCPListener

	slots    chan struct{} // one token per handshake in progress
	requests chan *cmid
	closed   chan struct{}
	services sync.WaitGroup

	mu      sync.Mutex
	done    bool
	pending map[*net.TCPConn]struct{} // handshakes in progress
}

// Listen binds the address.
func (p *Provider) Listen(ctx context.Context, addr verbs.Addr) (verbs.Listener, error) {
	crc, err := addrParams(addr)
	if err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", addr.HostPort())
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w%s", addr, err, hintFor(addr, err))
	}
	l := &listener{dev: p.dev, addr: addr, crc: crc, tcp: ln.(*net.TCPListener), slots: make(chan struct{}, maxPending),
		requests: make(chan *cmid, maxPending), closed: make(chan struct{}), pending: map[*net.TCPConn]struct{}{}}
	l.addr.Port = strconv.Itoa(l.tcp.Addr().(*net.TCPAddr).Port)
	l.services.Go(l.accept)
	return l, nil
}

func (l *listener) Addr() verbs.Addr { return l.addr }

// accept is the goroutine that takes TCP connections.
func (l *listener) accept() {
	for {
		select {
		case l.slots <- struct{}{}:
		case <-l.closed:
			return
		}
		c, err := l.tcp.AcceptTCP()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil: // out of descriptors, or a connection that is gone already
			<-l.slots
			select {
			case <-time.After(acceptPause):
			case <-l.closed:
				return
			}
			continue
		}
		if !l.track(c) {
			c.Close()
			return
		}
		l.services.Go(func() {
			l.handshake(c)
			<-l.slots
		})
	}
}

// acceptPause follows an error of accept(2), which may well come again.
const acceptPause = 50 * time.Millisecond

// track keeps the connection for Close; false when the listener is closed.
func (l *listener) track(c *net.TCPConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done {
		return false
	}
	l.pending[c] = struct{}{}
	return true
}

// handshake reads the request and offers it to GetRequest. When maxPending
// requests wait there already, it waits too, and so do those in TCP's backlog.
func (l *listener) handshake(tcp *net.TCPConn) {
	c := l.readRequest(tcp)
	l.mu.Lock()
	delete(l.pending, tcp)
	l.mu.Unlock()
	if c == nil {
		tcp.Close()
		return
	}
	select {
	case l.requests <- c:
	case <-l.closed:
		tcp.Close()
	}
}

func (l *listener) readRequest(tcp *net.TCPConn) *cmid {
	// An error of the deadline shows up in the read.
	_ = tcp.SetDeadline(time.Now().Add(l.dev.opts.requestTimeout))
	req, err := readMPA(tcp, false)
	if err != nil {
		return nil
	}
	if req.Markers {
		_ = sendMPA(tcp, rejectFrame(req, nil)) // a courtesy
		return nil
	}
	if tcp.SetDeadline(time.Time{}) != nil {
		return nil
	}
	c := newCMID(l.dev)
	c.crc, c.request, c.tcp = l.crc, req, tcp
	return c
}

func (l *listener) GetRequest(ctx context.Context) (verbs.CMID, error) {
	select {
	case <-l.closed:
		return nil, verbs.ErrClosed
	default:
	}
	select {
	case c := <-l.requests:
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-l.closed:
		return nil, verbs.ErrClosed
	}
}

func (l *listener) Close() error {
	l.mu.Lock()
	if l.done {
		l.mu.Unlock()
		return fmt.Errorf("close listener: %w", verbs.ErrClosed)
	}
	l.done = true
	for c := range l.pending {
		c.Close()
	}
	l.mu.Unlock()
	close(l.closed)
	err := l.tcp.Close()
	l.services.Wait()
	for {
		select {
		case c := <-l.requests:
			c.tcp.Close()
		default:
			return err
		}
	}
}
