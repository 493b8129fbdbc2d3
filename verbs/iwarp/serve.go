package iwarp

// serveCQs calls the handlers of the QP's completion queues for what is there.
// It runs on goroutines of the QP only.
func (q *qp) serveCQs() {
	q.serve(q.recvCQ)
	if q.sendCQ != q.recvCQ {
		q.serve(q.sendCQ)
	}
}

// serve plugs the QP while the handler runs, so that all it posts is sent
// together after it.
func (q *qp) serve(c *cq) {
	if c.handler == nil {
		return
	}
	for batch := c.nextBatch(false); len(batch) > 0; batch = c.nextBatch(true) {
		q.mu.Lock()
		q.plugged++
		q.mu.Unlock()
		c.handler(batch)
		q.mu.Lock()
		q.plugged--
		q.mu.Unlock()
		q.tryTransmit()
	}
}

// work is the goroutine for what must not be done on the goroutine of a caller:
// waiting for the socket, and calling handlers.
func (q *qp) work() {
	for {
		select {
		case <-q.wake:
		case <-q.quit:
			q.serveCQs()
			return
		}
		q.mu.Lock()
		mine := q.stalled
		q.stalled = false
		q.mu.Unlock()
		if mine {
			q.transmit(true)
		}
		q.serveCQs()
	}
}

// receive is the goroutine that reads the socket, places what comes, and calls
// the handlers for what has completed by it.
func (q *qp) receive() {
	for {
		if f := q.rx.step(q.sock); f != nil {
			q.fail(f)
			break
		}
		q.serveCQs()
		q.tryTransmit()
		q.serve(q.sendCQ) // for what was transmitted without a handler
	}
	q.bury()
}
