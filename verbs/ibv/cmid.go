package ibv

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"rbd/verbs"
)

// cmState is how far a connection is.
type cmState uint8

const (
	stateIdle       cmState = iota // resolved, or requested
	stateConnecting                // Connect or Accept waits
	stateConnected
	stateEnded
	stateDestroyed
)

// suspectTime is how long an event may take that explains why work was flushed.
const suspectTime = 250 * time.Millisecond

// cmid is an rdma_cm_id with a device.
type cmid struct {
	p       *Provider
	handle  uint64
	id      uintptr
	dev     *device
	passive bool
	request verbs.ConnParam
	// answer takes the events that Connect, Accept and resolving wait for.
	answer       chan cmEvent
	disconnected chan struct{}
	calls        sync.WaitGroup // what uses id and must be done before it is destroyed

	mu            sync.Mutex // the innermost but for those of the libraries
	state         cmState
	up            bool // the device has a connection that the peer must be told the end of
	qp            *qp
	err           error
	local, remote net.Addr
}

func (p *Provider) newCMID() *cmid {
	return &cmid{p: p, handle: p.nextHandle(), answer: make(chan cmEvent, 8), disconnected: make(chan struct{})}
}

func (c *cmid) Device() verbs.Device          { return c.dev }
func (c *cmid) Request() verbs.ConnParam      { return c.request }
func (c *cmid) Disconnected() <-chan struct{} { return c.disconnected }
func (c *cmid) LocalAddr() net.Addr           { c.mu.Lock(); defer c.mu.Unlock(); return c.local }
func (c *cmid) RemoteAddr() net.Addr          { c.mu.Lock(); defer c.mu.Unlock(); return c.remote }
func (c *cmid) Err() error                    { c.mu.Lock(); defer c.mu.Unlock(); return c.err }
func (c *cmid) getQP() *qp                    { c.mu.Lock(); defer c.mu.Unlock(); return c.qp }

// learn copies what librdmacm knows: device and addresses.
func (c *cmid) learn() (idInfo, error) {
	info := c.p.lib.queryID(c.id)
	c.mu.Lock()
	c.local, c.remote = info.src.netAddr(), info.dst.netAddr()
	c.mu.Unlock()
	if c.dev != nil {
		return info, nil
	}
	if info.context == 0 {
		return info, errors.New("bound to no device")
	}
	dev, err := c.p.device(info.context)
	c.dev = dev
	return info, err
}

// hold keeps id from being destroyed until calls.Done; false if it is too late.
func (c *cmid) hold() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == stateDestroyed {
		return false
	}
	c.calls.Add(1)
	return true
}

// handle acts on an event of the connection manager, on its goroutine.
func (c *cmid) handleEvent(e cmEvent) {
	switch e.event {
	case cmEstablished:
		c.handleEstablished(e)
	case cmRejected, cmUnreachable, cmConnectError:
		c.mu.Lock()
		withdrawn := c.passive && c.state == stateIdle
		c.mu.Unlock()
		if withdrawn {
			c.end(fmt.Errorf("the peer withdrew its request: %w", verbs.ErrDisconnected))
		}
		c.tell(e)
	case cmDisconnected:
		c.handleDisconnected(e)
	case cmDeviceRemoval:
		c.tell(e)
		c.end(errDeviceRemoved)
		if c.dev != nil {
			c.dev.remove()
		}
	default:
		c.tell(e)
	}
}

// tell hands an event to Connect, Accept or resolving.
func (c *cmid) tell(e cmEvent) {
	select {
	case c.answer <- e:
	default: // nobody waits for so many
	}
}

func (c *cmid) handleEstablished(e cmEvent) {
	c.mu.Lock()
	late := c.state != stateConnecting
	if !late {
		c.up = true
	}
	q := c.qp
	c.mu.Unlock()
	if late {
		_ = c.p.lib.disconnect(c.id)
		return
	}
	if !c.passive && q != nil {
		q.mu.Lock()
		depth := q.readDepth
		q.mu.Unlock()
		q.allowReads(min(depth, int(e.conn.initiatorDepth)))
		q.established()
	}
	c.tell(e)
}

func (c *cmid) handleDisconnected(e cmEvent) {
	c.mu.Lock()
	c.up = false
	q := c.qp
	c.mu.Unlock()
	cause := verbs.ErrDisconnected
	if q != nil && q.brokenBefore() {
		cause = fmt.Errorf("the connection broke: %w", errQPError)
	}
	c.end(cause)
	c.tell(e)
	if c.dev != nil && !c.dev.iwarp && c.hold() { // answers the peer, so that it need not ask again
		_ = c.p.lib.disconnect(c.id)
		c.calls.Done()
	}
}

// brokenBefore says whether the device has put a QP into ERR by itself.
func (q *qp) brokenBefore() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.destroyed || q.State() == verbs.QPStateERR {
		return false
	}
	state, err := q.dev.lib.qpState(q.native)
	return err == nil && state == verbs.QPStateERR
}

// end is the end of a connection, for the first cause that is given.
func (c *cmid) end(cause error) {
	c.mu.Lock()
	if c.state >= stateEnded {
		c.mu.Unlock()
		return
	}
	c.state, c.err = stateEnded, cause
	q := c.qp
	c.mu.Unlock()
	if q != nil {
		q.toERR()
	}
	close(c.disconnected)
}

// hangUp tells the peer of the end, once.
func (c *cmid) hangUp() {
	c.mu.Lock()
	up := c.up && c.state != stateDestroyed
	if up {
		c.up = false
		c.calls.Add(1)
	}
	c.mu.Unlock()
	if up {
		// A device that is gone, or a peer that was faster, makes an error.
		_ = c.p.lib.disconnect(c.id)
		c.calls.Done()
	}
}

// fail ends the connection for a cause that the peer does not know of.
func (c *cmid) fail(cause error) {
	c.end(cause)
	c.hangUp()
}

// failLater is fail for those who hold locks.
func (c *cmid) failLater(cause error) {
	if c.hold() {
		go func() {
			defer c.calls.Done()
			c.fail(cause)
		}()
	}
}

// suspect waits for the event that tells why work was flushed, and ends the
// connection if none comes.
func (c *cmid) suspect() {
	time.AfterFunc(suspectTime, func() {
		if q := c.getQP(); q != nil && q.brokenBefore() {
			c.fail(errQPError)
		}
	})
}

// early: a message came before the connection manager's own, which may be lost.
func (c *cmid) early() {
	if c.hold() {
		_ = c.p.lib.established(c.id)
		c.calls.Done()
	}
}

// modifiedToError is Modify to ERR.
func (c *cmid) modifiedToError() {
	c.mu.Lock()
	q, made := c.qp, c.state == stateConnecting || c.state == stateConnected
	c.mu.Unlock()
	if made {
		c.fail(errors.New("the queue pair was moved to ERR here"))
	} else if q != nil {
		q.toERR()
	}
}

// cut ends the connection as its QP is destroyed, and waits for calls that use it.
func (c *cmid) cut() {
	c.mu.Lock()
	made := c.state == stateConnecting || c.state == stateConnected
	c.mu.Unlock()
	if made {
		c.fail(fmt.Errorf("the queue pair was destroyed here: %w", verbs.ErrDisconnected))
	}
	c.calls.Wait()
}

func (c *cmid) Disconnect() error {
	c.mu.Lock()
	state := c.state
	c.mu.Unlock()
	switch state {
	case stateIdle:
		return fmt.Errorf("disconnect: not connected: %w", verbs.ErrState)
	case stateDestroyed:
		return fmt.Errorf("disconnect: %w", verbs.ErrClosed)
	}
	c.hangUp()
	c.end(verbs.ErrDisconnected)
	return nil
}

func (c *cmid) Destroy() error {
	c.mu.Lock()
	if c.state == stateDestroyed {
		c.mu.Unlock()
		return fmt.Errorf("destroy connection: %w", verbs.ErrClosed)
	}
	q := c.qp
	c.mu.Unlock()
	if q != nil {
		_ = q.Destroy() // it may be gone
	}
	c.end(verbs.ErrClosed)
	c.hangUp()
	c.mu.Lock()
	if c.state == stateDestroyed {
		c.mu.Unlock()
		return fmt.Errorf("destroy connection: %w", verbs.ErrClosed)
	}
	c.state = stateDestroyed
	c.mu.Unlock()
	c.p.unregister(c.handle)
	c.calls.Wait()
	if err := c.p.lib.destroyID(c.id); err != nil && (c.dev == nil || !c.dev.removed.Load()) {
		return wrap("destroy connection", err)
	}
	return nil
}
