package nbd

import (
	"errors"
	"fmt"
	"io"

	"rbd/internal/sockio"
)

// batchGoal is the size of a batch from which on it is not held for more.
const batchGoal = 4

// readLoop reads requests until the client leaves, the connection fails or the
// server stops. It answers nil after NBD_CMD_DISC.
func (c *conn) readLoop() error {
	extended := c.sess.mode == modeExtended
	for {
		for {
			h, n, err := parseRequest(c.stage[c.r:c.w], extended)
			if err != nil {
				return err
			}
			if n == 0 {
				break
			}
			c.r += n
			if h.cmd == cmdDisc {
				return nil
			}
			if err := c.execute(&h); err != nil {
				return err
			}
		}
		if c.gather() {
			continue
		}
		c.flush()
		if err := c.fill(); err != nil {
			if c.w > c.r && errors.Is(err, io.EOF) {
				err = fmt.Errorf("client left in the midst of a request: %w", io.ErrUnexpectedEOF)
			}
			return err
		}
	}
}

// gather lets the client run once, before a batch is submitted that is smaller
// than batchGoal although the client has that many requests in flight, and says
// whether more has come. A client that sends each request by itself wakes the
// reader with the first of them.
func (c *conn) gather() bool {
	if len(c.batch) == 0 || len(c.batch) >= batchGoal || c.gathered {
		c.gathered = false
		return false
	}
	c.mu.Lock()
	few := MaxRequests-len(c.free) < batchGoal
	c.mu.Unlock()
	if few {
		return false
	}
	c.gathered = true
	schedYield()
	c.compact()
	n, err := c.sock.TryReadv(c.in[:1]) // an error comes again with fill
	c.w += n
	return err == nil
}

// fill reads what has arrived behind what is left in the stage, and waits if
// nothing has.
func (c *conn) fill() error {
	c.compact()
	n, err := c.sock.Readv(c.in[:1])
	c.w += n
	return err
}

// compact makes room in the stage, and the iovec of it.
func (c *conn) compact() {
	if c.r > 0 {
		c.w = copy(c.stage, c.stage[c.r:c.w])
		c.r = 0
	}
	c.in[0] = sockio.Iovec(c.stage[c.w:])
}

// flush submits the batch and sends the replies that the reader has made.
func (c *conn) flush() {
	if len(c.batch) > 0 {
		c.queue.Submit(c.batch)
		clear(c.batch)
		c.batch = c.batch[:0]
	}
	c.mu.Lock()
	c.send()
}

// take gets a slot, with the right to n bytes of device memory. While none is
// to be had the client is not read.
func (c *conn) take(n int) (*slot, error) {
	for {
		// A command may have millions of parts: the end is noticed at each.
		if err := c.ctx.Err(); err != nil {
			return nil, err
		}
		if s := c.tryTake(n); s != nil {
			return s, nil
		}
		c.flush()
		if err := c.wait(c.ctx, 1, n); err != nil {
			return nil, err
		}
	}
}

// tryTake is take that answers nil instead of waiting.
func (c *conn) tryTake(n int) *slot {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(c.free) - 1
	if last < 0 || !c.fits(n) {
		return nil
	}
	s := &c.slots[c.free[last]]
	c.free = c.free[:last]
	c.memory += n
	s.size, s.head, s.next = n, s, nil
	s.to(slotReading)
	return s
}

// push puts a slot into the batch.
func (c *conn) push(s *slot) {
	c.hand(s)
	c.batch = append(c.batch, &s.req)
}

// hand makes a slot the device's. Parts that are to go out in order are seen
// by those that complete before them.
func (c *conn) hand(s *slot) {
	if !s.head.inOrder {
		s.to(slotSubmitted)
		return
	}
	c.mu.Lock()
	s.to(slotSubmitted)
	s.link()
	c.mu.Unlock()
}

// execute does one request. An error ends the connection.
func (c *conn) execute(h *header) error {
	if e := c.sess.check(h); e != 0 {
		return c.answer(h, e)
	}
	d := &c.sess.info
	switch h.cmd {
	case cmdRead:
		if h.length > uint64(d.MaxTransfer) && (c.sess.mode == modeSimple || h.flags&cmdFlagDF != 0) {
			return c.readInOrder(h)
		}
		return c.transfer(h, OpRead, uint64(d.MaxTransfer))
	case cmdWrite:
		return c.transfer(h, OpWrite, uint64(d.MaxTransfer))
	case cmdTrim:
		return c.transfer(h, OpTrim, d.MaxTrim)
	case cmdWriteZeroes:
		return c.transfer(h, OpWriteZeroes, d.MaxZero)
	case cmdFlush:
		return c.transfer(h, OpFlush, 0)
	case cmdBlockStatus:
		return c.blockStatus(h)
	}
	return c.answer(h, 0) // NBD_CMD_CACHE: a hint that there is no use for
}

// answer replies at once, and drops what payload a refused request has.
func (c *conn) answer(h *header, e Error) error {
	if h.payload > c.sess.drainLimit() {
		return fmt.Errorf("request of command %d has a payload of %d bytes", h.cmd, h.payload)
	}
	s, err := c.take(0)
	if err != nil {
		return err
	}
	c.mu.Lock()
	s.begin(h, 0)
	s.errno = e
	c.putStatus(s)
	c.mu.Unlock()
	return c.drop(h.payload)
}

// transfer does a command with device requests of at most limit bytes.
func (c *conn) transfer(h *header, op Op, limit uint64) error {
	if h.length > limit {
		return c.split(h, op, limit)
	}
	s, err := c.take(dataSize(op, h.length))
	if err != nil {
		return err
	}
	s.begin(h, 0)
	s.set(h, op, h.offset, h.length)
	if err := c.launch(s); err != nil {
		c.giveUp(s)
		return err
	}
	return nil
}

// dataSize is how much device memory a request needs.
func dataSize(op Op, length uint64) int {
	if op == OpRead || op == OpWrite {
		return int(length)
	}
	return 0
}

// launch gets memory for a request and its payload, and puts it into the batch.
// An error ends the connection; the slot is still the caller's then.
func (c *conn) launch(s *slot) error {
	if s.size > 0 && !c.queue.TryAlloc(s.size, &s.req.Buf) {
		c.flush() // what is waited for may be in the batch
		if err := c.queue.Alloc(c.ctx, s.size, &s.req.Buf); err != nil {
			if c.ctx.Err() != nil {
				return err
			}
			return c.settle(s, err)
		}
	}
	if s.req.Op == OpWrite {
		if err := c.readPayload(s.req.Buf.Data); err != nil {
			return err
		}
	}
	c.push(s)
	return nil
}

// settle completes a request that the device has no memory for.
func (c *conn) settle(s *slot, err error) error {
	payload := uint64(0)
	if s.req.Op == OpWrite {
		payload = s.req.Length
	}
	s.req.Err = err
	c.hand(s)
	c.mu.Lock()
	c.finish(s)
	c.mu.Unlock()
	return c.drop(payload)
}

// giveUp frees a slot that the reader will not submit.
func (c *conn) giveUp(s *slot) {
	c.mu.Lock()
	c.release(s)
	c.mu.Unlock()
}

// readPayload fills dst from the stage and then from the socket. Requests behind
// the payload come into the stage with the same call.
func (c *conn) readPayload(dst []byte) error {
	n := copy(dst, c.stage[c.r:c.w])
	c.r += n
	dst = dst[n:]
	if len(dst) == 0 {
		return nil
	}
	c.flush()
	c.r, c.w = 0, 0
	for {
		c.in[0], c.in[1] = sockio.Iovec(dst), sockio.Iovec(c.stage)
		n, err := c.sock.Readv(c.in[:2])
		if err != nil {
			return inPayload(err)
		}
		if n >= len(dst) {
			c.w = n - len(dst)
			return nil
		}
		dst = dst[n:]
	}
}

// drop reads n bytes and forgets them.
func (c *conn) drop(n uint64) error {
	for {
		k := min(n, uint64(c.w-c.r))
		c.r += int(k)
		if n -= k; n == 0 {
			return nil
		}
		c.flush()
		if err := c.fill(); err != nil {
			return inPayload(err)
		}
	}
}

func inPayload(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read payload: %w", err)
}

// blockStatus answers for the context base:allocation.
func (c *conn) blockStatus(h *header) error {
	s, err := c.take(0)
	if err != nil {
		return err
	}
	extents, e := c.allocation(h)
	c.mu.Lock()
	defer c.mu.Unlock()
	s.begin(h, 0)
	if s.errno = e; e != 0 {
		c.putStatus(s)
		return nil
	}
	s.to(slotSending)
	c.out.putHeader(putExtents(c.out.header(), c.sess.mode, s, extents), s, true)
	return nil
}

// allocation asks the device, or takes all as allocated.
func (c *conn) allocation(h *header) ([]Extent, Error) {
	n := 1
	c.extents[0] = Extent{Length: h.length}
	if d, ok := c.sess.export.Device.(BlockStatuser); ok {
		c.flush() // it may take its time
		var err error
		if n, err = d.BlockStatus(c.ctx, h.offset, h.length, c.extents[:]); err != nil {
			return nil, errorOf(err)
		}
	}
	extents := clipExtents(c.extents[:n], h.length, h.flags&cmdFlagReqOne != 0, c.sess.mode != modeExtended)
	if len(extents) == 0 {
		return nil, ErrIO
	}
	return extents, 0
}

var _ Owner = (*conn)(nil)
