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

	// calls is held for reading by calls of the library with id, which may use its
	// QP as well, and for writing by those that destroy one of them.
	calls sync.RWMutex
	gone  bool // id is destroyed

	mu            sync.Mutex // the innermost but for those of the libraries
	state         cmState
	up            bool // the device has a connection that the peer must be told the end of
	qp            *qp
	err           error
	leaving       bool // Disconnect was called here, which is the cause of what follows
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
func (c *cmid) learn() (info idInfo, err error) {
	done, _ := c.call(func(id uintptr) error {
		info = c.p.lib.queryID(id)
		return nil
	})
	if !done {
		return info, verbs.ErrClosed
	}
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

// call makes a call of the library with id; false if that is destroyed.
func (c *cmid) call(f func(id uintptr) error) (done bool, err error) {
	c.calls.RLock()
	defer c.calls.RUnlock()
	if c.gone {
		return false, nil
	}
	return true, f(c.id)
}

// handleEvent acts on an event of the connection manager, on its goroutine.
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
			go c.dev.remove() // it waits for calls in progress
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
		go c.disconnectID()
		return
	}
	if !c.passive && q != nil {
		q.mu.Lock()
		depth := q.readDepth
		q.mu.Unlock()
		resources, _ := c.dev.answered(e)
		q.allowReads(min(depth, resources))
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
	if q != nil {
		if broken := q.broken(); broken != nil {
			cause = fmt.Errorf("the connection broke: %w", broken)
		}
	}
	c.end(cause)
	c.tell(e)
	if c.dev != nil && !c.dev.iwarp {
		go c.disconnectID() // answers the peer, so that it need not ask again
	}
}

// disconnectID ends the connection of the device. A device that is gone, or a peer
// that was faster, makes an error.
func (c *cmid) disconnectID() { _, _ = c.call(c.p.lib.disconnect) }

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

// broken is why a QP had failed before its connection ended; nil if it had not, or
// on iWARP, where the end itself moves the QP to ERR, if nobody knows of it.
func (q *qp) broken() error {
	before := q.brokenBefore()
	if before { // a completion that nobody has taken yet may tell
		q.sendCQ.drain(nil)
		q.recvCQ.drain(nil)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.cause != nil:
		return q.cause
	case before && !q.dev.iwarp:
		return errQPError
	}
	return nil
}

// end is the end of a connection, for the first cause that is given.
func (c *cmid) end(cause error) {
	c.mu.Lock()
	if c.state >= stateEnded {
		c.mu.Unlock()
		return
	}
	if c.leaving {
		cause = verbs.ErrDisconnected
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
	up := c.up
	c.up = false
	c.mu.Unlock()
	if up {
		c.disconnectID()
	}
}

// fail ends the connection for a cause that the peer does not know of.
func (c *cmid) fail(cause error) {
	c.end(cause)
	c.hangUp()
}

// failLater is fail for those who hold locks.
func (c *cmid) failLater(cause error) { go c.fail(cause) }

// suspect waits for the event that tells why work was flushed, and ends the
// connection if none comes.
func (c *cmid) suspect() {
	time.AfterFunc(suspectTime, func() {
		if q := c.getQP(); q != nil {
			q.examine()
		}
	})
}

// early: a message came before the connection manager's own, which may be lost.
func (c *cmid) early() { _, _ = c.call(c.p.lib.established) }

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

// cut ends the connection as its QP is destroyed.
func (c *cmid) cut() {
	c.mu.Lock()
	made := c.state == stateConnecting || c.state == stateConnected
	c.mu.Unlock()
	if made {
		c.fail(fmt.Errorf("the queue pair was destroyed here: %w", verbs.ErrDisconnected))
	}
}

// destroyQP takes the QP from the device.
func (c *cmid) destroyQP() {
	c.calls.Lock()
	defer c.calls.Unlock()
	if c.gone {
		return
	}
	c.p.taking.Lock() // an event that is being taken may use the QP
	defer c.p.taking.Unlock()
	c.p.lib.destroyQP(c.id)
}

func (c *cmid) Disconnect() error {
	c.mu.Lock()
	state := c.state
	c.leaving = c.leaving || state == stateConnecting || state == stateConnected
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
	c.calls.Lock()
	defer c.calls.Unlock()
	c.gone = true
	if err := c.p.lib.destroyID(c.id); err != nil && (c.dev == nil || !c.dev.removed()) {
		return wrap("destroy connection", err)
	}
	return nil
}
