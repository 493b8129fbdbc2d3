package nbd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"rbd/internal/sockio"
)

const (
	// stageSize is how much of the stream is read at once: fifteen 4 KiB WRITEs.
	// It also bounds an option of the handshake.
	stageSize = 64 << 10
	// maxMemory is the most device memory that a connection has in flight, twice
	// the longest request.
	maxMemory = 2 * maxPayload
	// defaultStall is how long a client that is about to be closed may leave its
	// replies unread.
	defaultStall = 10 * time.Second
)

var (
	errStalled = errors.New("client does not read its replies")
	errStopped = errors.New("server is shutting down")
)

// conn is one connection. See the package documentation for who owns what.
type conn struct {
	sock *sockio.Conn
	log  *slog.Logger

	ctx    context.Context // done when the reader is to end
	cancel context.CancelCauseFunc

	// The handshake's result.
	sess  session
	queue Queue

	opened bool          // takes part in succession; guarded by Server.mu
	left   chan struct{} // closed when the connection is done with
	client string        // who it is, known when it is opened

	// The reader's.
	stage   []byte
	r, w    int // stage[r:w] is not yet parsed
	batch   []*Request
	in      [2]unix.Iovec
	extents [maxExtents]Extent

	gathered bool // the batch has been held once

	slots [MaxRequests]slot
	iov   [maxIovecs]unix.Iovec // of the one who transmits
	wake  chan struct{}         // to the reader
	// resume hands the right to transmit to the writer goroutine.
	resume chan struct{}

	mu        sync.Mutex
	free      []int32 // slots
	memory    int     // bytes of device memory in flight
	out       sendQueue
	active    bool   // somebody transmits
	sentBytes uint64 // what the socket has taken
	broken    bool   // nothing can be sent any more
	err       error  // why

	// What the reader waits for while waiting is set.
	waiting              bool
	wantSlots, wantBytes int
}

// newConn makes the connection ready for its handshake.
func newConn(nc net.Conn, log *slog.Logger) (*conn, error) {
	sc, ok := nc.(sockio.NetConn)
	if !ok {
		return nil, fmt.Errorf("connection of type %T has no file descriptor", nc)
	}
	sock, err := sockio.New(sc)
	if err != nil {
		return nil, err
	}
	if err := sock.WatchHangup(); err != nil {
		return nil, errors.Join(err, sock.Close())
	}
	c := &conn{sock: sock, log: log, left: make(chan struct{}), stage: make([]byte, stageSize)}
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	return c, nil
}

// interruptible lets a context that ends, for whatever reason, end a wait for the
// client, until the function that it returns is called. A deadline can't be set
// only when the connection is closed already.
func (c *conn) interruptible() (stop func() bool) {
	return context.AfterFunc(c.ctx, func() { _ = c.sock.SetReadDeadline(time.Unix(1, 0)) })
}

// transmission serves the session's requests to the end of the connection. The
// error is nil after NBD_CMD_DISC and io.EOF when the client left without.
func (c *conn) transmission(stall time.Duration) (err error) {
	defer c.sock.Close()
	defer c.interruptible()()
	if c.queue, err = c.sess.export.Device.OpenQueue(c); err != nil {
		return fmt.Errorf("open export %q: %w", c.sess.export.Name, err)
	}
	c.log = c.log.With("export", c.sess.export.Name)
	c.log.Info("NBD client has opened an export", "mode", c.sess.mode, "metadata", c.sess.metadata)
	c.prepare()
	var helpers sync.WaitGroup
	helpers.Go(c.writer)
	helpers.Go(c.watch)
	err = c.readLoop()
	c.flush()
	c.drain(stall)
	close(c.resume)
	c.sock.Close() // ends the watch
	helpers.Wait()
	if cerr := c.queue.Close(); cerr != nil && err == nil {
		err = fmt.Errorf("close export %q: %w", c.sess.export.Name, cerr)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return c.err // the reader's error is a consequence
	case c.ctx.Err() != nil:
		return context.Cause(c.ctx)
	}
	return err
}

// handshake negotiates. It answers false when there is no session: with a nil
// error if the client wanted none.
func (c *conn) handshake(exports []Export, timeout time.Duration) (bool, error) {
	timer := time.AfterFunc(timeout, func() {
		_ = c.sock.SetWriteDeadline(time.Unix(1, 0))
		c.cancel(fmt.Errorf("%w: not done within %v", errHandshake, timeout))
	})
	defer timer.Stop()
	defer c.interruptible()()
	h := newHandshake(exports)
	err := c.negotiate(h)
	switch {
	case c.ctx.Err() != nil:
		return false, context.Cause(c.ctx)
	case errors.Is(err, io.EOF):
		return false, nil // a look at the greeting, or at the list
	}
	c.sess = h.session
	return err == nil && h.state == negotiated && timer.Stop(), err
}

// negotiate carries bytes between the client and the state machine.
func (c *conn) negotiate(h *handshake) error {
	for {
		n, err := h.step(c.stage[c.r:c.w])
		c.r += n
		over := err != nil || h.state == negotiated || h.state == aborted
		if len(h.out) > 0 && (over || n == 0 || len(h.out) > stageSize) {
			_, werr := c.sock.Write(h.out)
			if err == nil && h.state != aborted { // who has aborted need not wait for the reply
				err = werr
			}
			h.out = h.out[:0]
		}
		if over || err != nil {
			return err
		}
		if n == 0 {
			if err := c.fill(); err != nil {
				return err
			}
		}
	}
}

// prepare makes what transmission needs.
func (c *conn) prepare() {
	c.mu.Lock() // somebody may count what is in flight
	defer c.mu.Unlock()
	c.batch = make([]*Request, 0, MaxRequests)
	c.free = make([]int32, MaxRequests)
	for i := range c.slots {
		c.slots[i].req.Index = i
		c.free[i] = int32(MaxRequests - 1 - i) // the first slots are taken first
	}
	c.wake = make(chan struct{}, 1)
	c.resume = make(chan struct{}, 1)
	c.out.init()
}

// fail marks the connection as broken: no reply leaves any more, and the reader
// ends. mu is held.
func (c *conn) fail(err error) {
	if c.broken {
		return
	}
	c.broken, c.err = true, err
	c.cancel(err)
	c.sock.Close()
}

// stop makes the reader end. What is in flight is answered.
func (c *conn) stop() { c.cancel(errStopped) }

// kill ends the connection without waiting for the client.
func (c *conn) kill(err error) {
	c.cancel(err)
	c.mu.Lock()
	c.fail(err)
	c.send()
}

// drain waits until all requests in flight are completed and answered, and
// gives up on a client that does not take its replies.
func (c *conn) drain(stall time.Duration) {
	last := ^uint64(0)
	for {
		ctx, cancel := context.WithTimeout(context.Background(), stall)
		err := c.wait(ctx, MaxRequests, 0)
		cancel()
		if err == nil {
			return
		}
		c.mu.Lock()
		if !c.out.empty() && c.sentBytes == last {
			c.fail(errStalled)
		}
		last = c.sentBytes
		c.send()
	}
}

// wait waits until so many slots are free and so many bytes of device memory
// may be taken.
func (c *conn) wait(ctx context.Context, slots, bytes int) error {
	c.mu.Lock()
	c.wantSlots, c.wantBytes = slots, bytes
	if c.waiting = !c.enough(); !c.waiting {
		c.mu.Unlock()
		return nil
	}
	c.mu.Unlock()
	select {
	case <-c.wake:
		return nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	if !c.waiting {
		<-c.wake // it came at the same time
	}
	c.waiting = false
	c.mu.Unlock()
	return ctx.Err()
}

// enough tells whether what the reader waits for is there. mu is held.
func (c *conn) enough() bool {
	return len(c.free) >= c.wantSlots && c.fits(c.wantBytes)
}

// fits tells whether so many bytes of device memory may be taken. mu is held.
func (c *conn) fits(n int) bool { return c.memory == 0 || c.memory+n <= maxMemory }
