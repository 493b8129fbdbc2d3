package initiator

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"rbd/wire"
)

// association is one life of a connection between this host and a controller at
// the target (NVMe over Fabrics, "association"): an admin queue, and connections
// for the I/O queues. When one of them ends, all of it does. A [Controller] has one
// after the other.
type association struct {
	c     *Controller
	admin *Queue
	info  controllerInfo
	// granted is how many I/O queues have a connection: the first ones.
	granted int
	// found are the namespaces as they were when it was made.
	found []*NamespaceInfo
	// events: the controller tells of changes of namespaces.
	events bool

	mu sync.Mutex
	// open are the queues that have a connection; down says that none is added any
	// more.
	open  []*Queue
	down  bool
	ended bool // life has

	// life ends, with the reason as its cause, when the connections are to be cut;
	// over is closed when they have been, and no request is left in them.
	life       context.Context
	kill       context.CancelCauseFunc
	over       chan struct{}
	live       chan struct{} // closed when it serves requests
	keepAlives chan struct{} // answers to Keep Alive commands
	background sync.WaitGroup
}

// controllerInfo is what the controller told about itself.
type controllerInfo struct {
	cap           wire.CAP
	vs            wire.Version
	cntlid        uint16
	id            wire.IdentifyController
	queueSize     int    // entries of an I/O queue
	inCapsule     uint64 // bytes of in-capsule data of an I/O command
	maxTransfer   uint64 // bytes of a read or write command, a power of two
	maxZeroes     uint64 // bytes of a Write Zeroes command
	maxTrimBlocks uint64 // blocks of a Dataset Management range
}

// newAssociation makes an association without connections. It runs until fail.
func (c *Controller) newAssociation() *association {
	a := &association{
		c:          c,
		admin:      c.newQueue(0, adminQueueSize),
		over:       make(chan struct{}),
		live:       make(chan struct{}),
		keepAlives: make(chan struct{}, 1),
	}
	a.life, a.kill = context.WithCancelCause(context.Background())
	a.background.Go(a.supervise)
	return a
}

// fail ends the connections because of err; the first reason stays. It does not
// block, and may be called with a queue's lock held.
func (a *association) fail(err error) {
	a.mu.Lock()
	first := !a.ended
	a.ended = true
	a.mu.Unlock()
	if !first {
		return
	}
	if a.isLive() {
		a.c.lost(err) // before the teardown, which asks for the state
	}
	a.kill(err)
}

// isLive says that it serves requests, or did.
func (a *association) isLive() bool {
	select {
	case <-a.live:
		return true
	default:
		return false
	}
}

// err is why life ended, nil while it has not.
func (a *association) err() error { return context.Cause(a.life) }

// endError is the error of requests that the end of the connections takes along.
func (a *association) endError() error {
	err := a.err()
	if errors.Is(err, ErrClosed) {
		return err
	}
	return lossError(err)
}

// lossError is the error of requests that end because of a loss.
func lossError(why error) error { return fmt.Errorf("%w: %w", ErrConnectionLost, why) }

// attach adds a queue that has its connection. It fails when all are being cut.
func (a *association) attach(q *Queue) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down {
		return a.endError()
	}
	a.open = append(a.open, q)
	return nil
}

// attached are the queues that have a connection.
func (a *association) attached() []*Queue {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.open
}

// teardown ends all connections, and then what was sent on them: not before no
// connection is left by which the peer could touch the buffers.
func (a *association) teardown() {
	defer close(a.over)
	a.mu.Lock()
	a.down = true
	all := a.open
	a.mu.Unlock()
	err := a.endError()
	if a.isLive() {
		a.c.suspend(err)
	}
	for _, q := range all {
		q.cut(err)
	}
	for _, q := range all {
		if err := q.end(err); err != nil {
			a.c.opts.Logger.Error("end a queue", "nqn", a.c.opts.SubNQN, "queue", q.id, "err", err)
		}
	}
}

// abort ends an association that did not come to life, or is not wanted any more,
// and waits until nothing of it is left.
func (a *association) abort(err error) {
	a.fail(err)
	a.background.Wait()
}
