package iwarp

import (
	"errors"
	"fmt"
	"net"
	"sync"

	"rbd/internal/sockio"
	"rbd/verbs"
	"rbd/verbs/iwarp/internal/frame"
)

// cmid is a connection, being made or made. Its mutex is taken before a QP's.
type cmid struct {
	dev     *device
	crc     bool           // this side wants CRC
	targets []*net.TCPAddr // active side: where the peer may be
	addr    verbs.Addr     // active side: as it was given
	request *frame.MPA     // passive side: what it asked

	mu    sync.Mutex
	state cmState
	qp    *qp
	tcp   *net.TCPConn

	endOnce sync.Once
	end     chan struct{}
	why     error
}

type cmState uint8

const (
	cmIdle      cmState = iota // active: address resolved; passive: request not answered
	cmBusy                     // Connect or Accept is at work
	cmConnected                // and perhaps disconnected since
	cmFailed                   // Connect, Accept failed
	cmDestroyed
)

func (s cmState) String() string {
	return [...]string{"idle", "connecting", "connected", "failed", "destroyed"}[s]
}

func newCMID(d *device) *cmid { return &cmid{dev: d, end: make(chan struct{})} }

func (c *cmid) Device() verbs.Device { return c.dev }

func (c *cmid) CreateQP(p verbs.PD, attr verbs.QPInitAttr) (verbs.QP, error) {
	domain, ok := p.(*pd)
	if !ok || domain.dev != c.dev {
		return nil, fmt.Errorf("create queue pair: protection domain of another device: %w", verbs.ErrInvalid)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state != cmIdle || c.qp != nil {
		return nil, fmt.Errorf("create queue pair: connection is %s or has one: %w", c.state, verbs.ErrState)
	}
	q, err := newQP(domain, attr)
	if err != nil {
		return nil, err
	}
	q.ended = c.finish
	c.qp = q
	return q, nil
}

// begin starts the one Connect or Accept of the connection.
func (c *cmid) begin(active bool) (*qp, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.state == cmDestroyed:
		return nil, verbs.ErrClosed
	case c.state != cmIdle || active != (c.request == nil):
		return nil, fmt.Errorf("connection is %s: %w", c.state, verbs.ErrState)
	case c.qp == nil:
		return nil, fmt.Errorf("no queue pair was made: %w", verbs.ErrState)
	}
	c.state = cmBusy
	return c.qp, nil
}

// adopt makes the TCP connection the CMID's, so that Destroy closes it.
func (c *cmid) adopt(tcp *net.TCPConn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == cmDestroyed {
		return verbs.ErrClosed
	}
	c.tcp = tcp
	return nil
}

// establish gives the connection to the QP.
func (c *cmid) establish(q *qp, l link) error {
	l.mss = mss(c.tcp)
	s, err := sockio.New(c.tcp)
	if err != nil {
		return err
	}
	if l.active = c.request == nil; l.active {
		// If the process dies, its kernel must not go on sending: what was asked
		// here may be done by another in its place.
		if err := s.SetLinger(0); err != nil {
			return errors.Join(err, s.Close())
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == cmDestroyed {
		return errors.Join(verbs.ErrClosed, s.Close())
	}
	if err := q.start(s, l); err != nil {
		return errors.Join(err, s.Close())
	}
	c.state = cmConnected
	return nil
}

// failed ends a Connect or Accept that did not work.
func (c *cmid) failed(q *qp, err error) {
	c.mu.Lock()
	if c.state == cmBusy {
		c.state = cmFailed
	}
	tcp := c.tcp
	c.mu.Unlock()
	q.fail(&fault{cause: err})
	if tcp != nil {
		tcp.Close()
	}
}

func (c *cmid) Disconnect() error {
	c.mu.Lock()
	q, state := c.qp, c.state
	c.mu.Unlock()
	if state != cmConnected {
		return fmt.Errorf("disconnect: connection is %s: %w", state, verbs.ErrState)
	}
	return q.disconnect()
}

// finish records how the connection ended.
func (c *cmid) finish(why error) {
	c.endOnce.Do(func() {
		c.why = why
		close(c.end)
	})
}

func (c *cmid) Disconnected() <-chan struct{} { return c.end }

func (c *cmid) Err() error {
	select {
	case <-c.end:
		return c.why
	default:
		return nil
	}
}

func (c *cmid) LocalAddr() net.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tcp == nil {
		return nil
	}
	return c.tcp.LocalAddr()
}

func (c *cmid) RemoteAddr() net.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tcp == nil {
		if len(c.targets) > 0 {
			return c.targets[0]
		}
		return nil
	}
	return c.tcp.RemoteAddr()
}

func (c *cmid) Destroy() error {
	c.mu.Lock()
	if c.state == cmDestroyed {
		c.mu.Unlock()
		return fmt.Errorf("destroy connection: %w", verbs.ErrClosed)
	}
	running := c.state == cmConnected
	c.state = cmDestroyed
	q, tcp := c.qp, c.tcp
	c.mu.Unlock()
	if tcp != nil && !running {
		tcp.Close()
	}
	if q != nil {
		if err := q.Destroy(); err != nil && running {
			q.services.Wait() // destroyed by its owner; be sure that it has ended
		}
		q.farewell.Wait()
	}
	c.finish(verbs.ErrDisconnected)
	return nil
}
