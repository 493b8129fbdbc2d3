package initiator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

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

// Controller is an NVMe subsystem as a host sees it: I/O queues and namespaces,
// with a connection behind them that is made again when it is lost. All methods
// are safe for concurrent use.
type Controller struct {
	provider verbs.Provider
	addr     verbs.Addr
	opts     Options
	born     time.Time

	// Made by the first association, and not changed any more.
	pd        verbs.PD
	queues    []*Queue
	adminPool *bufpool.Pool
	pool      *bufpool.Pool
	region    region

	namespaces namespaceTable
	// known are all namespaces that there ever were, of adopt and of the survey
	// before it.
	known   map[uint32]*Namespace
	changes changeLog
	tick    atomic.Uint32
	turn    atomic.Uint32 // of the blocking API: which queue is next

	// use is held for reading during every blocking call, and for writing once
	// none may come any more.
	use sync.RWMutex
	// turnover is held while the queues change to or from an association.
	turnover sync.Mutex

	mu    sync.Mutex
	state State
	// assoc is the association that is live, or was last.
	assoc *association
	// why there is no connection; stay says that none is to be made again.
	why  error
	stay bool

	// life ends, with the reason as its cause, when there is to be no connection
	// any more; over is closed when there is none and all requests have ended.
	life       context.Context
	kill       context.CancelCauseFunc
	over       chan struct{}
	stopped    chan struct{} // a token when stay has been set
	background sync.WaitGroup
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
		provider: p, addr: addr, opts: opts, born: time.Now(),
		known:   make(map[uint32]*Namespace),
		changes: changeLog{wake: make(chan struct{}, 1)},
		over:    make(chan struct{}),
		stopped: make(chan struct{}, 1),
		stay:    opts.NoReconnect,
	}
	c.life, c.kill = context.WithCancelCause(context.Background())
	return c
}

// Addr is the address of the target.
func (c *Controller) Addr() verbs.Addr { return c.addr }

// NQN is the name of the subsystem.
func (c *Controller) NQN() string { return c.opts.SubNQN }

// Info tells what the controller is, or was when it was there last.
func (c *Controller) Info() Info {
	i := &c.association().info
	return Info{
		CNTLID: i.cntlid, Version: i.vs,
		Serial:   wire.Text(i.id.SN[:]),
		Model:    wire.Text(i.id.MN[:]),
		Firmware: wire.Text(i.id.FR[:]),

		QueueSize: i.queueSize, InCapsule: int(i.inCapsule), MaxTransfer: int(i.maxTransfer),
	}
}

func (c *Controller) association() *association {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.assoc
}

// Queues are the I/O queues. Owners of many requests choose one and stay with it:
// the queues are the same over reconnects.
func (c *Controller) Queues() []*Queue { return c.queues }

// DropAbandoned ends the requests that wait for a connection and whose Abandoned has
// become true.
func (c *Controller) DropAbandoned() {
	for _, q := range c.queues { // any of them may hold what was submitted to another
		q.dropUnwanted()
	}
}

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

// Lost is closed when there will be no connection any more, because of Close or
// because there is no reconnecting, and every request has come back.
func (c *Controller) Lost() <-chan struct{} { return c.over }

// Err is why there is no connection now, nil while there is one.
func (c *Controller) Err() error {
	if err := context.Cause(c.life); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

// endError is the error of requests for which there is no connection.
func (c *Controller) endError() error {
	err := c.Err()
	if errors.Is(err, ErrClosed) {
		return err
	}
	return lossError(err)
}

// Close ends the controller in order: requests that are out are finished, the
// target is told of the shutdown, the connections are ended, and everything is
// freed. New requests end with ErrClosed, and so do those that wait for another
// connection. It does not flush. When ctx ends first, the connection is cut. If
// buffers are still lent, the error wraps verbs.ErrBusy, and Close may be called
// again for the rest.
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
		a := c.association()
		if err := a.shutdown(ctx); err != nil && a.err() == nil {
			failure = fmt.Errorf("shut down %s at %s: %w", c.opts.SubNQN, c.addr, err)
		}
	}
	c.kill(ErrClosed)
	c.association().fail(ErrClosed)
	<-c.over
	c.background.Wait()
	if err := c.free(); err != nil {
		return errors.Join(failure, err)
	}
	c.become(StateClosed)
	return failure
}

// discard frees a controller to which no association could be made.
func (c *Controller) discard(err error) error {
	c.kill(err)
	c.become(StateClosing)
	defer c.become(StateClosed)
	return c.free()
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
