package nbd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	defaultMaxConns         = 256
	defaultHandshakeTimeout = 30 * time.Second
)

// errTooMany is why a connection over the limit is closed.
var errTooMany = errors.New("too many NBD connections")

// Server serves exports to any number of connections. Its fields may be set
// before the first connection.
type Server struct {
	// MaxConns is how many connections there may be at a time, 256 if 0. More
	// are closed at once.
	MaxConns int
	// HandshakeTimeout is how long a client may take from connecting to the
	// end of its negotiation, 30 seconds if 0.
	HandshakeTimeout time.Duration

	exports []Export
	log     *slog.Logger
	stall   time.Duration
	settle  time.Duration

	mu        sync.Mutex
	stopping  bool
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	ended     sync.WaitGroup // connections
}

// NewServer makes a server of the exports. The first one is also the default
// export, which a client gets that asks for the empty name.
func NewServer(exports []Export, logger *slog.Logger) (*Server, error) {
	if len(exports) == 0 {
		return nil, errors.New("NBD server has no export")
	}
	names := make(map[string]bool)
	for _, e := range exports {
		for _, s := range []string{e.Name, e.Description} {
			if len(s) > maxString || !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
				return nil, fmt.Errorf("export %.100q: name and description are UTF-8 without NUL, and at most %d bytes", e.Name, maxString)
			}
		}
		if names[e.Name] {
			return nil, fmt.Errorf("two exports are called %q", e.Name)
		}
		names[e.Name] = true
		if _, err := e.Device.Info().normalize(); err != nil {
			return nil, fmt.Errorf("export %q: %w", e.Name, err)
		}
	}
	return &Server{
		exports: slices.Clone(exports), log: logger, stall: defaultStall, settle: defaultSettle,
		listeners: make(map[net.Listener]struct{}), conns: make(map[*conn]struct{}),
	}, nil
}

// Serve accepts connections until ctx is done or Shutdown is called, and answers
// nil then. It closes the listener; connections go on until Shutdown.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	defer l.Close()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		return nil
	}
	s.listeners[l] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
	}()
	for {
		nc, err := l.Accept()
		if err == nil {
			s.start(nc)
			continue
		}
		if ctx.Err() != nil || s.isStopping() {
			return nil
		}
		if !temporary(err) {
			return fmt.Errorf("accept on %v: %w", l.Addr(), err)
		}
		s.log.Warn("can't accept an NBD connection now", "listener", l.Addr(), "error", err)
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return nil
		}
	}
}

// start runs a connection on a goroutine of its own.
func (s *Server) start(nc net.Conn) {
	go func() {
		client := clientName(nc)
		log := s.log.With("client", client)
		switch err := s.serveConn(nc, client, log); {
		case err == nil:
			log.Debug("NBD client has left")
		case errors.Is(err, errStopped):
			log.Debug("NBD connection closed", "reason", err)
		default:
			log.Warn("NBD connection closed", "reason", err)
		}
	}()
}

// ServeConn serves one connected unix or TCP socket until it ends, and closes
// it. The error is nil when the client left by the rules.
func (s *Server) ServeConn(nc net.Conn) error {
	client := clientName(nc)
	return s.serveConn(nc, client, s.log.With("client", client))
}

func (s *Server) serveConn(nc net.Conn, client string, log *slog.Logger) error {
	c, err := s.open(nc, log)
	if err != nil {
		return err
	}
	defer s.leave(c)
	c.client = client
	timeout := s.HandshakeTimeout
	if timeout == 0 {
		timeout = defaultHandshakeTimeout
	}
	ok, err := c.handshake(s.exports, timeout)
	if ok {
		err = s.succeed(c)
	}
	if !ok || err != nil {
		c.sock.Close()
		return err
	}
	err = c.transmission(s.stall)
	if errors.Is(err, io.EOF) {
		return nil // without NBD_CMD_DISC: common
	}
	return err
}

// open makes a connection of a socket, which it closes if that fails.
func (s *Server) open(nc net.Conn, log *slog.Logger) (*conn, error) {
	tune(nc)
	c, err := newConn(nc, log)
	if err != nil {
		nc.Close()
		return nil, err
	}
	if err := s.enter(c); err != nil {
		return nil, errors.Join(err, c.sock.Close())
	}
	return c, nil
}

func (s *Server) enter(c *conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.MaxConns
	if limit == 0 {
		limit = defaultMaxConns
	}
	switch {
	case s.stopping:
		return errStopped
	case len(s.conns) >= limit:
		return fmt.Errorf("%w: the limit is %d", errTooMany, limit)
	}
	s.conns[c] = struct{}{}
	s.ended.Add(1)
	return nil
}

func (s *Server) leave(c *conn) {
	c.cancel(nil)
	s.mu.Lock()
	delete(s.conns, c)
	s.mu.Unlock()
	s.ended.Done()
	close(c.left)
}

func (s *Server) isStopping() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stopping
}

// Shutdown stops accepting and reading, lets the requests in flight finish,
// answers them and closes all connections. When ctx is done first, the
// connections are closed without their answers, and the error is that of ctx;
// requests that a device still has are waited for by nobody then.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.stopping = true
	for l := range s.listeners {
		l.Close()
	}
	for c := range s.conns {
		c.stop()
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() {
		s.ended.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	for c := range s.conns {
		go c.kill(errStopped)
	}
	s.mu.Unlock()
	return fmt.Errorf("shut down NBD server: %w", ctx.Err())
}
