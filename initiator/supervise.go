package initiator

import (
	"fmt"
	"time"

	"rbd/wire"
)

// ioTicks is the time limit of an I/O command in ticks of the clock: it is
// overdue when more than this many have passed since it was sent.
const ioTicks = 4

// supervise runs from the beginning to the end of a controller: it ticks the
// clock and checks the time limits, keeps the controller alive, and cuts the
// connections when life ends.
func (c *Controller) supervise() {
	period := max(c.opts.IOTimeout/ioTicks, time.Millisecond)
	adminTicks := uint32((c.opts.AdminTimeout + period - 1) / period)
	ticks := time.NewTicker(period)
	defer ticks.Stop()
	alive := time.NewTimer(period)
	defer alive.Stop()
	var ka keepAlive // off until the controller is live
	live := c.live
	for {
		action, wait := ka.step(time.Now(), c.answers())
		switch action {
		case keepAliveWait:
		case keepAliveSend:
			c.sendKeepAlive()
		case keepAliveExpired:
			c.fail(fmt.Errorf("keep alive not answered in %v: %w", ka.kato, ErrTimeout))
		}
		alive.Reset(wait)
		select {
		case <-c.life.Done():
			c.teardown()
			return
		case <-live:
			live = nil
			kato := time.Duration(c.opts.kato()) * time.Millisecond
			ka = newKeepAlive(kato, c.info.id.CTRATT&wire.CTRATTTBKAS != 0, time.Now())
		case <-c.keepAlives:
			ka.answered(c.answers())
		case <-alive.C:
		case <-ticks.C:
			c.tick.Add(1)
			c.checkTime(adminTicks)
		}
	}
}

// checkTime cuts the connections when an answer is overdue.
func (c *Controller) checkTime(adminTicks uint32) {
	for _, q := range c.attached() {
		limit := uint32(ioTicks)
		if q.id == 0 {
			limit = adminTicks
		}
		if err := q.overdue(limit); err != nil {
			c.fail(err)
			return
		}
	}
}

// answers counts the answers on all queues.
func (c *Controller) answers() (n uint64) {
	for _, q := range c.attached() {
		n += q.answers()
	}
	return n
}

// sendKeepAlive submits a Keep Alive command; its answer comes to c.keepAlives.
func (c *Controller) sendKeepAlive() {
	r := &Request{Op: opCommand, Owner: keepAliveOwner{c}, cmd: &command{sqe: wire.KeepAliveSQE()}}
	c.admin.Submit([]*Request{r})
}

// keepAliveOwner owns the Keep Alive commands.
type keepAliveOwner struct{ c *Controller }

// Complete implements Owner.
func (o keepAliveOwner) Complete(batch []*Request) {
	for _, r := range batch {
		switch status := r.cmd.cqe.Status; {
		case r.Err != nil: // the connection has ended
		case !status.OK():
			o.c.fail(&CommandError{Command: wire.AdminKeepAlive.String(), Status: status})
		default:
			select {
			case o.c.keepAlives <- struct{}{}:
			default:
			}
		}
	}
}
