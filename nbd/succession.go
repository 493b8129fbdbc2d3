package nbd

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Clients of an export follow one another: a virtual machine dies and is started
// again. What the first one has left behind must not come over what the next one is
// told to have written. So a client that comes waits for those that left before,
// until they have nothing in hand any more.

const (
	// defaultSettle is how long a client waits for those before it. Longer takes only
	// a device that is as good as lost; then its clients are better told so.
	defaultSettle = time.Minute
	// quietSettle is how long it waits before that is worth a message.
	quietSettle = time.Second
)

// errUnsettled ends a connection whose requests can't be done safely. The client may
// try again.
var errUnsettled = errors.New("requests of an earlier client that has left are still in hand")

// Abandoner is a [Queue] that can give up requests of a client that is gone.
type Abandoner interface {
	Queue
	// Abandon is called when the client has hung up, be it with requests outstanding
	// or not. Those that are under way, and those that are still submitted, may be
	// done, but none may be kept back to be done at some later time: they are to be
	// completed, with an error. It may be called at the same time as the other methods.
	Abandon()
}

// succeed waits until the clients of the same export that have hung up are done with.
//
// That it misses none follows from the order of events: whoever starts a client in
// place of another does so when the other one's socket is closed. A connection is
// opened before it has its first request, and so is seen here with its socket; it
// leaves the server when it has nothing in hand.
func (s *Server) succeed(c *conn) error {
	gone := s.hungUp(c)
	if len(gone) == 0 {
		return nil
	}
	say := time.AfterFunc(quietSettle, func() {
		c.log.Info("NBD client waits for the requests of clients that have left", "export", c.sess.export.Name, "clients", len(gone))
	})
	defer say.Stop()
	limit := time.NewTimer(s.settle)
	defer limit.Stop()
	for _, p := range gone {
		select {
		case <-p.left:
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		case <-limit.C:
			return fmt.Errorf("open export %q: %w after %v", c.sess.export.Name, errUnsettled, s.settle)
		}
	}
	return nil
}

// hungUp marks the connection as one that has opened its export, and collects those
// that opened it before and whose clients have hung up since.
func (s *Server) hungUp(c *conn) (gone []*conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.opened = true
	for p := range s.conns {
		if p != c && p.opened && p.sess.export == c.sess.export && p.sock.HungUp() {
			gone = append(gone, p)
		}
	}
	return gone
}

// watch sees to it that the device learns of the client's end, also while no request
// is read.
func (c *conn) watch() {
	if err := c.sock.WaitHangup(); err != nil {
		c.kill(err)
	}
	if q, ok := c.queue.(Abandoner); ok {
		q.Abandon()
	}
}
