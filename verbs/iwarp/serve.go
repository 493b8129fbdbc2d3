package iwarp

// maxTurns bounds what a goroutine that has other things to do does in one go for
// others: batches to send, batches of completions to have handled.
const maxTurns = 16

// serveCQs calls the handlers of the QP's completion queues for what is there.
// It runs on goroutines of the QP only. more says that it did not come to an end,
// as completions of other QPs keep coming.
func (q *qp) serveCQs() (more bool) {
	more = q.serve(q.recvCQ)
	if q.sendCQ != q.recvCQ {
		more = q.serve(q.sendCQ) || more
	}
	return more
}

// serve plugs the QP while the handler runs, so that all it posts is sent
// together after it.
func (q *qp) serve(c *cq) (more bool) {
	if c.handler == nil {
		return false
	}
	for turn := range maxTurns {
		batch := c.nextBatch(turn > 0)
		if len(batch) == 0 {
			return false
		}
		q.mu.Lock()
		q.plugged++
		q.mu.Unlock()
		c.handler(batch)
		q.mu.Lock()
		q.plugged--
		q.mu.Unlock()
		q.tryTransmit()
	}
	return c.leave()
}

// work is the goroutine for what must not be done on the goroutine of a caller:
// waiting for the socket, and calling handlers.
func (q *qp) work() {
	for {
		select {
		case <-q.wake:
		case <-q.quit:
			for q.serveCQs() {
			}
			return
		}
		q.mu.Lock()
		mine := q.passed
		q.passed = false
		q.mu.Unlock()
		if mine {
			q.transmit(true)
		}
		for q.serveCQs() {
		}
	}
}

// receive is the goroutine that reads the socket, places what comes, and calls
// the handlers for what has completed by it.
func (q *qp) receive() {
	for more := false; ; {
		if f := q.rx.step(q.sock, !more); f != nil {
			q.fail(f)
			break
		}
		more = q.serveCQs()
		q.tryTransmit()
		more = q.serve(q.sendCQ) || more // for what was transmitted without a handler
	}
	q.bury()
}
