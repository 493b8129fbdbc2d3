package initiator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"rbd/verbs"
	"rbd/verbs/bufpool"
	"rbd/wire"
)

// adminBuffers is the memory for the data of admin commands, apart from that of
// I/O so that they never wait for it; adminTransfer bounds one command's data.
const (
	adminBuffers  = 128 << 10
	adminTransfer = 16 << 10
)

// Controller is a connection to an NVMe subsystem: an admin queue, I/O queues,
// and the namespaces. All methods are safe for concurrent use.
type Controller struct {
	provider verbs.Provider
	addr     verbs.Addr
	opts     Options

	// Set while connecting, and not changed any more.
	pd        verbs.PD
	admin     *Queue
	queues    []*Queue
	adminPool *bufpool.Pool
	pool      *bufpool.Pool
	region    region
	info      controllerInfo
	events    bool // the controller tells of changes of namespaces

	namespaces namespaceTable
	tick       atomic.Uint32
	turn       atomic.Uint32 // of the blocking API: which queue is next

	// use is held for reading during every blocking call, and for writing once
	// none may come any more.
	use sync.RWMutex

	mu    sync.Mutex
	state State
	// open are the queues that have a connection; down says that none is added any
	// more.
	open []*Queue
	down bool

	// life ends, with the reason as its cause, when the connections are to be cut;
	// over is closed when they have been and all requests have ended.
	life       context.Context
	kill       context.CancelCauseFunc
	over       chan struct{}
	live       chan struct{} // closed when StateLive is reached
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

// Info is what a controller told about itself.
type Info struct {
	CNTLID   uint16
	Version  wire.Version
	Serial   string
	Model    string
	Firmware string
	// QueueSize is the entries of an I/O queue, InCapsule the bytes of data that
	// may go with a command, MaxTransfer the bytes of one read or write command.
	QueueSize, InCapsule, MaxTransfer int
}

func newController(p verbs.Provider, addr verbs.Addr, opts Options) *Controller {
	c := &Controller{
		provider: p, addr: addr, opts: opts,
		over:       make(chan struct{}),
		live:       make(chan struct{}),
		keepAlives: make(chan struct{}, 1),
	}
	c.life, c.kill = context.WithCancelCause(context.Background())
	c.background.Go(c.supervise)
	return c
}

// Addr is the address of the target.
func (c *Controller) Addr() verbs.Addr { return c.addr }

// NQN is the name of the subsystem.
func (c *Controller) NQN() string { return c.opts.SubNQN }

// Info tells what the controller is.
func (c *Controller) Info() Info {
	return Info{
		CNTLID: c.info.cntlid, Version: c.info.vs,
		Serial:   wire.Text(c.info.id.SN[:]),
		Model:    wire.Text(c.info.id.MN[:]),
		Firmware: wire.Text(c.info.id.FR[:]),

		QueueSize: c.info.queueSize, InCapsule: int(c.info.inCapsule), MaxTransfer: int(c.info.maxTransfer),
	}
}

// Queues are the I/O queues. Owners of many requests choose one and stay with it.
func (c *Controller) Queues() []*Queue { return c.queues }

// Buffers lends the memory that reads and writes use. All of it must be back
// when Close is called.
func (c *Controller) Buffers() *bufpool.Pool { return c.pool }

// Namespaces are the active namespaces by identifier.
func (c *Controller) Namespaces() []*Namespace { return c.namespaces.sorted() }

// Namespace is the namespace with that identifier; its error wraps ErrNoNamespace
// and tells which there are.
func (c *Controller) Namespace(nsid uint32) (*Namespace, error) {
	if n := c.namespaces.get(nsid); n != nil {
		return n, nil
	}
	var have []uint32
	for _, n := range c.Namespaces() {
		have = append(have, n.nsid)
	}
	if len(have) == 0 {
		return nil, fmt.Errorf("namespace %d of %s: %w; the subsystem has none that can be used", nsid, c.opts.SubNQN, ErrNoNamespace)
	}
	return nil, fmt.Errorf("namespace %d of %s: %w; there are %v", nsid, c.opts.SubNQN, ErrNoNamespace, have)
}

// Lost is closed when the connection has ended, by Close too, and every request
// has come back.
func (c *Controller) Lost() <-chan struct{} { return c.over }

// Err is why the connection ended, nil while it has not.
func (c *Controller) Err() error { return context.Cause(c.life) }

// endError is the error of requests that the end of the connections takes along.
func (c *Controller) endError() error {
	err := c.Err()
	if errors.Is(err, ErrClosed) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrConnectionLost, err)
}

// fail ends the connections because of err; the first reason stays. It does not
// block, and may be called with a queue's lock held.
func (c *Controller) fail(err error) {
	c.kill(err)
	if from, ok := c.become(StateLost); ok && from == StateLive {
		c.opts.Logger.Warn("connection lost", "nqn", c.opts.SubNQN, "addr", c.addr.String(), "err", c.Err())
	}
}

// attach adds a queue that has its connection. It fails when all are being cut.
func (c *Controller) attach(q *Queue) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return c.endError()
	}
	c.open = append(c.open, q)
	return nil
}

// attached are the queues that have a connection.
func (c *Controller) attached() []*Queue {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

// teardown ends all connections, and then all requests: not before no connection
// is left by which the peer could touch their buffers.
func (c *Controller) teardown() {
	defer close(c.over)
	c.mu.Lock()
	c.down = true
	all := c.open
	c.mu.Unlock()
	err := c.endError()
	for _, q := range all {
		q.cut(err)
	}
	for _, q := range all {
		if err := q.end(err); err != nil {
			c.opts.Logger.Error("end a queue", "nqn", c.opts.SubNQN, "queue", q.id, "err", err)
		}
	}
}

// Close ends the controller in order: requests that are out are finished, the
// target is told of the shutdown, the connections are ended, and everything is
// freed. New requests end with ErrClosed. It does not flush. When ctx ends first,
// the connection is cut. If buffers are still lent, the error wraps
// verbs.ErrBusy, and Close may be called again for the rest.
func (c *Controller) Close(ctx context.Context) error {
	var failure error
	switch from, ok := c.become(StateClosing); {
	case from == StateClosed:
		return nil
	case !ok: // another Close is at work, or was
		select {
		case <-c.over:
		case <-ctx.Done():
		}
	case from == StateLive:
		if err := c.shutdown(ctx); err != nil && c.Err() == nil {
			failure = fmt.Errorf("shut down %s at %s: %w", c.opts.SubNQN, c.addr, err)
		}
	}
	c.fail(ErrClosed)
	<-c.over
	c.background.Wait()
	if err := c.free(); err != nil {
		return errors.Join(failure, err)
	}
	c.become(StateClosed)
	return failure
}

// free gives back the memory. No queue is left.
func (c *Controller) free() error {
	c.use.Lock() // the last blocking calls put their buffers back
	defer c.use.Unlock()
	for _, pool := range []*bufpool.Pool{c.pool, c.adminPool} {
		if pool == nil {
			continue
		}
		if err := pool.Close(); err != nil && !errors.Is(err, bufpool.ErrClosed) {
			return err
		}
	}
	if c.pd == nil {
		return nil
	}
	err := c.pd.Dealloc()
	c.pd = nil
	return err
}
