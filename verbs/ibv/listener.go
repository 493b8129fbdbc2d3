package ibv

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"rbd/verbs"
)

// maxPending bounds the requests that wait for GetRequest, and for the kernel.
const maxPending = 256

// relistenTime is how often a listener whose device was removed looks whether its
// address is there again.
const relistenTime = 500 * time.Millisecond

// listener is an rdma_cm_id that listens.
type listener struct {
	p        *Provider
	handle   uint64
	params   params
	at       []netip.AddrPort // with the port that was taken
	addr     verbs.Addr
	requests chan *cmid
	closed   chan struct{}

	mu  sync.Mutex
	ids []uintptr // none while the device is gone
	// again listens again, until it succeeds or the listener is closed.
	again sync.WaitGroup
	done  bool
}

// handleEvent takes a connection request, on the goroutine of the events.
func (l *listener) handleEvent(e cmEvent) {
	switch e.event {
	case cmConnectRequest:
		l.take(e)
	case cmDeviceRemoval:
		l.mu.Lock()
		defer l.mu.Unlock()
		if !l.done {
			l.again.Go(l.relisten)
		}
	}
}

// relisten gives the removed device up, which waits for that, and listens again
// when a device has the address.
func (l *listener) relisten() {
	if !l.destroyIDs(nil) {
		return
	}
	tick := time.NewTicker(relistenTime)
	defer tick.Stop()
	for {
		select {
		case <-l.closed:
			return
		case <-tick.C:
			if l.listen() == nil {
				return
			}
		}
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

func (l *listener) ended() error { return fmt.Errorf("listener on %s: %w", l.addr, verbs.ErrClosed) }

func (l *listener) Close() error {
	l.mu.Lock()
	if l.done {
		l.mu.Unlock()
		return fmt.Errorf("close listener: %w", verbs.ErrClosed)
	}
	l.done = true
	close(l.closed)
	l.mu.Unlock()
	l.again.Wait()
	l.p.unregister(l.handle)
	// The requests first: siw does not always stand a listener that goes before them.
	err := l.dropRequests()
	l.destroyIDs(&err)
	return errors.Join(err, l.dropRequests())
}

// dropRequests refuses the requests that nobody took.
func (l *listener) dropRequests() (err error) {
	for {
		select {
		case c := <-l.requests:
			err = errors.Join(err, c.Destroy())
			continue
		default:
		}
		return err
	}
}

// destroyIDs ends listening; false if it had ended. An error is added to err.
func (l *listener) destroyIDs(err *error) bool {
	l.mu.Lock()
	ids := l.ids
	l.ids = nil
	l.mu.Unlock()
	for _, id := range ids {
		if e := l.p.lib.destroyID(id); e != nil && err != nil {
			*err = errors.Join(*err, wrap("close listener", e))
		}
	}
	return len(ids) > 0
}
