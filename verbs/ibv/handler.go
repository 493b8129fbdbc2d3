package ibv

import "rbd/verbs"

// runHandler is the goroutine of a handled CQ. It takes all completions there are,
// calls the handler with each batch, arms the queue, looks once more, as a
// completion may have come before, and waits.
func (c *cq) runHandler() {
	batch := make([]verbs.WC, maxBatch)
	armed := false
	for !c.event.IsClosed() {
		if n := c.take(batch); n > 0 {
			c.handler(batch[:n])
			continue
		}
		if !armed {
			// An error means that the device is gone: then a kick wakes us.
			_ = c.arm()
			armed = true
			continue
		}
		switch err := c.events.wait(c.tryWait); {
		case c.isGivenUp():
			select {
			case <-c.wake:
			case <-c.event.Closed():
			}
		case err == nil:
			armed = false
		default:
			// Interrupted. Whoever does so has put his completions there before,
			// and they are looked for after.
			c.events.resume()
		}
	}
}
