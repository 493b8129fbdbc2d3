package ibv

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"rbd/verbs"
)

// maxPending bounds the requests that wait for GetRequest, and for the kernel.
const maxPending = 256

// listener is an rdma_cm_id that listens.
type listener struct {
	p        *Provider
	handle   uint64
	id       uintptr
	addr     verbs.Addr
	requests chan *cmid
	closed   chan struct{}

	mu   sync.Mutex
	done bool
	err  error // why it listens no more
}

// handleEvent takes a connection request, on the goroutine of the events.
func (l *listener) handleEvent(e cmEvent) {
	switch e.event {
	case cmConnectRequest:
		l.take(e)
	case cmDeviceRemoval:
		l.stop(fmt.Errorf("listen on %s: %w", l.addr, errDeviceRemoved))
	}
}

// take makes a CMID for the request and queues it; one too many is refused.
func (l *listener) take(e cmEvent) {
	c := l.p.newCMID()
	c.id, c.passive = e.id, true
	// The event has this side's view: its resources are the depth of the peer.
	c.request = verbs.ConnParam{PrivateData: e.conn.privateData,
		ResponderResources: int(e.conn.initiatorDepth), InitiatorDepth: int(e.conn.responderResources)}
	l.p.lib.setHandle(c.id, c.handle)
	l.p.register(c.handle, c)
	_, err := c.learn()
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.done {
			select {
			case l.requests <- c:
				return
			default:
			}
		}
	}
	go c.drop()
}

// drop refuses a request that nobody takes.
func (c *cmid) drop() { _ = c.Destroy() }

func (l *listener) Addr() verbs.Addr { return l.addr }

func (l *listener) GetRequest(ctx context.Context) (verbs.CMID, error) {
	select {
	case <-l.closed:
		return nil, l.ended()
	case <-ctx.Done():
		return nil, ctx.Err()
	default:
	}
	for {
		select {
		case c := <-l.requests:
			if c.Err() != nil { // the peer has given up
				c.drop()
				continue
			}
			return c, nil
		case <-l.closed:
			return nil, l.ended()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (l *listener) ended() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	return fmt.Errorf("listener on %s: %w", l.addr, verbs.ErrClosed)
}

// stop ends GetRequest; false if it has been stopped.
func (l *listener) stop(cause error) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done {
		return false
	}
	l.done, l.err = true, cause
	close(l.closed)
	return true
}

func (l *listener) Close() error {
	stopped := l.stop(nil)
	if !l.p.unregister(l.handle) {
		return fmt.Errorf("close listener: %w", verbs.ErrClosed)
	}
	err := l.p.lib.destroyID(l.id)
	for {
		select {
		case c := <-l.requests:
			err = errors.Join(err, c.Destroy())
			continue
		default:
		}
		break
	}
	if err != nil && stopped {
		return wrap("close listener", err)
	}
	return nil
}
