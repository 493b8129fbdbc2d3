package nbd

// split does a command with several device requests, which complete in any
// order. The reply follows the last of them; data of a READ goes out in chunks
// of its own before that.
func (c *conn) split(h *header, op Op, limit uint64) error {
	head, err := c.take(0)
	if err != nil {
		return err
	}
	count := (h.length-1)/limit + 1
	head.begin(h, count)
	return c.launchParts(head, h, op, limit, 0, count)
}

// launchParts launches the parts of a command numbered from (inclusive) to
// count (exclusive).
func (c *conn) launchParts(head *slot, h *header, op Op, limit, from, count uint64) error {
	for i := from; i < count; i++ {
		at := i * limit
		n := min(limit, h.length-at)
		s, err := c.take(dataSize(op, n))
		if err != nil {
			c.abandon(head, nil, count-i)
			return err
		}
		s.head = head
		s.set(h, op, h.offset+at, n)
		if err := c.launch(s); err != nil {
			c.abandon(head, s, count-i-1)
			return err
		}
	}
	return nil
}

// readInOrder does a long READ whose data follows a single header. If there are
// slots and memory for all of it at once, the reply is made when all is read,
// and so tells an error properly. Otherwise the parts go out one after the other
// as they are read, while nothing else of the connection is in flight that could
// keep the memory they need. An error in a later part ends the connection then.
func (c *conn) readInOrder(h *header) error {
	head, err := c.take(0)
	if err != nil {
		return err
	}
	limit := uint64(c.sess.info.MaxTransfer)
	count := (h.length-1)/limit + 1
	head.begin(h, count)
	head.inOrder, head.waiting = true, count

	parts, got := c.collect(head, h, limit)
	whole := got == count
	if !whole {
		c.flush()
		if err := c.wait(c.ctx, MaxRequests-1-int(got), 0); err != nil {
			c.abandon(head, parts, count-got)
			return err
		}
		head.waiting = 0
	}
	for parts != nil {
		s := parts
		parts = s.next
		c.push(s)
	}
	if whole {
		return nil
	}
	if err := c.launchParts(head, h, OpRead, limit, got, count); err != nil {
		return err
	}
	c.flush()
	return c.wait(c.ctx, MaxRequests, 0) // no other reply in between
}

// collect gets slots and memory for the parts of a READ as far as they are to be
// had without waiting: a chain of slots, and how many they are.
func (c *conn) collect(head *slot, h *header, limit uint64) (first *slot, got uint64) {
	last := &first
	for at := uint64(0); at < h.length; at += limit {
		n := min(limit, h.length-at)
		s := c.tryTake(int(n))
		if s == nil {
			break
		}
		if !c.queue.TryAlloc(s.size, &s.req.Buf) {
			c.giveUp(s)
			break
		}
		s.head = head
		s.set(h, OpRead, h.offset+at, n)
		*last, last = s, &s.next
		got++
	}
	return first, got
}

// abandon ends a command of which parts will never be made: the chain that
// begins with s, and some that have no slot.
func (c *conn) abandon(head, s *slot, missing uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	head.abandoned = true
	for s != nil {
		next := s.next
		c.release(s)
		s = next
	}
	if head.left -= missing; missing > 0 && head.left == 0 {
		c.release(head)
	}
}
