package initiator

import (
	"context"
	"fmt"

	"rbd/verbs/bufpool"
)

// Flags modify a write.
type Flags uint8

const (
	// FUA: the call returns when the data is on stable storage.
	FUA Flags = 1 << iota
	// NoUnmap: WriteZeroes keeps the blocks allocated.
	NoUnmap
)

// window is how many commands one call has out at once, if there are buffers.
const window = 4

// The calls below wait for the controller's answer, and are safe for concurrent
// use. When ctx ends they return its error promptly; what was sent may be done
// nevertheless. Ranges must be multiples of the block size, a violation is a
// *RangeError. Other errors are those of Request.Err. Ranges of any length are
// split into commands.

// ReadAt fills p from off on. If p lies within a buffer of Controller.Buffers the
// data is placed there directly, and when ctx ends, ReadAt still waits for the
// answer to what was sent, or for the end of the connection, so that the buffer is
// the caller's again when it returns; else the data is copied.
func (n *Namespace) ReadAt(ctx context.Context, p []byte, off uint64) error {
	return n.transfer(ctx, OpRead, p, off, 0)
}

// WriteAt writes p at off. What ReadAt says of p holds here too.
func (n *Namespace) WriteAt(ctx context.Context, p []byte, off uint64, flags Flags) error {
	return n.transfer(ctx, OpWrite, p, off, flags)
}

// Flush returns when everything that was written before, by completed writes of
// anyone, is on stable storage.
func (n *Namespace) Flush(ctx context.Context) error {
	return n.simple(ctx, Request{Op: OpFlush})
}

// Trim tells that length bytes at off are not needed any more. What they read as
// then is told by NamespaceInfo.TrimmedReadZeroes.
func (n *Namespace) Trim(ctx context.Context, off, length uint64) error {
	return n.simple(ctx, Request{Op: OpTrim, Offset: off, Length: length})
}

// WriteZeroes makes length bytes at off read as zeros.
func (n *Namespace) WriteZeroes(ctx context.Context, off, length uint64, flags Flags) error {
	return n.simple(ctx, Request{
		Op: OpWriteZeroes, Offset: off, Length: length, FUA: flags&FUA != 0, NoUnmap: flags&NoUnmap != 0,
	})
}

// usable says why there is no point in asking for anything, or nil.
func (c *Controller) usable() error {
	switch c.State() {
	case StateLost:
		return c.endError()
	case StateClosing, StateClosed:
		return ErrClosed
	}
	return nil
}

// buffer waits for a data buffer, until ctx or the controller ends.
func (c *Controller) buffer(ctx context.Context, n int, buf *bufpool.Buf) error {
	if c.pool.TryGet(n, buf) {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	err := c.pool.Get(ctx, n, buf)
	if err != nil && c.life.Err() != nil {
		return c.endError()
	}
	return err
}

// pick chooses a queue for a call.
func (c *Controller) pick() *Queue {
	return c.queues[int(c.turn.Add(1)%uint32(len(c.queues)))]
}

// simple runs a request without data.
func (n *Namespace) simple(ctx context.Context, r Request) error {
	n.ctrl.use.RLock()
	defer n.ctrl.use.RUnlock()
	if err := n.ctrl.usable(); err != nil {
		return err
	}
	if r.Op != OpFlush && r.Length == 0 {
		return nil
	}
	cl := newCall()
	cl.req = r
	cl.req.NSID = n.nsid
	if err := cl.run(ctx, n.ctrl.pick()); err != nil {
		return fmt.Errorf("%s: %w", r.Op, err)
	}
	return cl.req.Err
}

// transfer is a read or write of any length.
func (n *Namespace) transfer(ctx context.Context, op Op, p []byte, off uint64, flags Flags) error {
	c := n.ctrl
	c.use.RLock()
	defer c.use.RUnlock()
	if err := c.usable(); err != nil {
		return err
	}
	if len(p) == 0 {
		return nil
	}
	whole := Request{
		Op: op, NSID: n.nsid, Offset: off, Length: uint64(len(p)), FUA: flags&FUA != 0, Buf: bufpool.Buf{Data: p},
	}
	info := n.info.Load()
	if err := info.check(&whole); err != nil {
		return err // before a part of it is done
	}
	if buf, ok := c.region.find(p); ok {
		cl := newCall()
		cl.req = whole
		cl.req.Buf = buf
		cl.runInPlace(ctx, c.pick())
		return cl.req.Err
	}
	t := transfer{c: c, q: c.pick(), whole: whole, chunk: int(info.maxTransfer)}
	return t.run(ctx)
}

// transfer copies a range in chunks through buffers of the pool.
type transfer struct {
	c     *Controller
	q     *Queue
	whole Request
	chunk int // bytes of one command, at most

	// calls is a ring of the chunks that are out: count of them, beginning with
	// the one at first.
	calls        [window]*call
	first, count int
	begun, ended int // bytes
}

// run keeps up to window chunks out and returns the first error.
func (t *transfer) run(ctx context.Context) (err error) {
	n := len(t.whole.Buf.Data)
	for t.begun < n && err == nil || t.count > 0 {
		for t.begun < n && err == nil && t.count < window {
			var more bool
			if more, err = t.begin(ctx); !more {
				break
			}
		}
		if t.count > 0 {
			if e := t.end(ctx); err == nil {
				err = e
			}
		}
	}
	return err
}

// begin sends the next chunk. It waits for a buffer only if no chunk is out:
// those that are have buffers that others may be waiting for.
func (t *transfer) begin(ctx context.Context) (bool, error) {
	data := t.whole.Buf.Data[t.begun:]
	data = data[:min(len(data), t.chunk)]
	cl := newCall()
	cl.req, cl.pool = t.whole, t.c.pool
	cl.req.Buf = bufpool.Buf{}
	if t.count > 0 {
		if !t.c.pool.TryGet(len(data), &cl.req.Buf) {
			return false, nil
		}
	} else if err := t.c.buffer(ctx, len(data), &cl.req.Buf); err != nil {
		return false, fmt.Errorf("%s: %w", t.whole.Op, err)
	}
	if t.whole.Op == OpWrite {
		copy(cl.req.Buf.Data, data)
	}
	cl.req.Offset += uint64(t.begun)
	cl.req.Length = uint64(len(data))
	cl.start(t.q)
	t.calls[(t.first+t.count)%window] = cl
	t.count++
	t.begun += len(data)
	return true, nil
}

// end waits for the chunk that has been out longest.
func (t *transfer) end(ctx context.Context) error {
	cl := t.calls[t.first]
	t.first = (t.first + 1) % window
	t.count--
	if err := cl.wait(ctx); err != nil {
		return fmt.Errorf("%s: %w", t.whole.Op, err)
	}
	defer cl.release()
	if cl.req.Err == nil && t.whole.Op == OpRead {
		copy(t.whole.Buf.Data[t.ended:], cl.req.Buf.Data)
	}
	t.ended += len(cl.req.Buf.Data)
	return cl.req.Err
}
