package nbd

import "errors"

// errReadCutShort ends a connection in the midst of a READ reply: the protocol
// has no other way to take back a simple reply that has begun.
var errReadCutShort = errors.New("device failed after the reply to a read had begun")

// Complete is the [Owner] side of the queue: it makes the replies and sends
// them in one go.
func (c *conn) Complete(batch []*Request) {
	c.mu.Lock()
	for _, r := range batch {
		c.finish(&c.slots[r.Index])
	}
	c.send()
}

// finish takes one completed request. mu is held.
func (c *conn) finish(s *slot) {
	h := s.head
	failed := s.req.Err != nil
	if failed && h.errno == 0 {
		h.errno = errorOf(s.req.Err)
		// NBD_ENOTSUP has the one meaning that a fast zero is not possible.
		if h.errno == ErrNotSupported && !s.req.FastZero {
			h.errno = ErrInvalid
		}
	}
	switch {
	case h.inOrder:
		c.finishInOrder(s)
	case h.cmd == cmdRead && !failed:
		n := putRead(c.out.header(), c.sess.mode, h, s.req.Offset, s.req.Length, s == h)
		c.out.putHeader(n, s, false)
		s.to(slotSending)
		c.out.putData(s)
	case s == h:
		c.freeMemory(s)
		c.putStatus(s)
	default:
		c.release(s)
	}
}

// finishInOrder takes a completed part of a READ that has one header.
func (c *conn) finishInOrder(s *slot) {
	h := s.head
	s.to(slotCollected)
	if h.waiting > 0 {
		if h.waiting--; h.waiting > 0 {
			return
		}
	}
	if h.errno != 0 {
		c.dropCollected(h)
		return
	}
	for h.first != nil && h.first.state == slotCollected {
		if !h.started {
			c.out.putHeader(putRead(c.out.header(), c.sess.mode, h, h.offset, h.length, true), h, false)
			h.started = true
		}
		p := h.takeFirst()
		p.to(slotSending)
		c.out.putData(p)
	}
}

// dropCollected frees the completed parts of a READ that has failed. Those that
// the device still has follow when they complete.
func (c *conn) dropCollected(h *slot) {
	if h.started {
		c.fail(errReadCutShort)
	}
	p := h.first
	h.first, h.last = nil, nil
	for p != nil {
		next := p.next
		if p.state == slotCollected {
			c.release(p)
		} else {
			p.link()
		}
		p = next
	}
}

// putStatus queues a reply without data, the last of the command. mu is held.
func (c *conn) putStatus(h *slot) {
	h.to(slotSending)
	c.out.putHeader(putStatus(c.out.header(), c.sess.mode, h), h, true)
}

// release frees a slot and its memory, and with the last part of a command ends
// the command. mu is held.
func (c *conn) release(s *slot) {
	c.freeMemory(s)
	s.to(slotFree)
	c.free = append(c.free, int32(s.req.Index))
	if h := s.head; h != s {
		if h.left--; h.left == 0 {
			c.end(h)
		}
	}
	if c.waiting && c.enough() {
		c.waiting = false
		c.wake <- struct{}{} // has room: the reader waits for one thing at a time
	}
}

// end ends a command whose parts are all done with. mu is held.
func (c *conn) end(h *slot) {
	if h.abandoned || h.inOrder && (h.started || h.errno == 0) {
		c.release(h)
		return
	}
	c.putStatus(h)
}

// freeMemory gives back the device memory of a slot. mu is held.
func (c *conn) freeMemory(s *slot) {
	if s.size == 0 {
		return
	}
	c.memory -= s.size
	s.size = 0
	if s.req.Buf.Data != nil {
		c.queue.Free(&s.req.Buf)
		s.req.Buf = Buffer{}
	}
}
