package initiator

import (
	"context"
	"fmt"
	"time"

	"rbd/wire"
)

// ioTicks is the time limit of an I/O command in ticks of the clock: it is
// overdue when more than this many have passed since it was sent.
const ioTicks = 4

// supervise runs from the beginning to the end of an association: it ticks the
// clock and checks the time limits, keeps the controller alive, and cuts the
// connections when life ends, or the controller's does.
func (a *association) supervise() {
	period := max(a.c.opts.IOTimeout/ioTicks, time.Millisecond)
	adminTicks := uint32((a.c.opts.AdminTimeout + period - 1) / period)
	ticks := time.NewTicker(period)
	defer ticks.Stop()
	alive := time.NewTimer(period)
	defer alive.Stop()
	var ka keepAlive // off until the association is live
	live := a.live
	var closed <-chan struct{} // the controller is, which has brought it to life
	for {
		action, wait := ka.step(time.Now(), a.traffic())
		switch action {
		case keepAliveWait:
		case keepAliveSend:
			a.sendKeepAlive()
		case keepAliveExpired:
			a.fail(fmt.Errorf("keep alive not answered in %v: %w", ka.kato, ErrTimeout))
		}
		alive.Reset(wait)
		select {
		case <-a.life.Done():
			a.teardown()
			return
		case <-live:
			live, closed = nil, a.c.life.Done()
			kato := time.Duration(a.c.opts.kato()) * time.Millisecond
			ka = newKeepAlive(kato, a.info.id.CTRATT&wire.CTRATTTBKAS != 0, time.Now())
		case <-closed:
			closed = nil
			a.fail(context.Cause(a.c.life)) // Close has done so, unless it missed this one
		case <-a.keepAlives:
			ka.answered(a.traffic())
		case <-alive.C:
		case <-ticks.C:
			a.c.tick.Add(1)
			a.checkTime(adminTicks)
		}
	}
}

// checkTime cuts the connections when an answer is overdue.
func (a *association) checkTime(adminTicks uint32) {
	for _, q := range a.attached() {
		limit := uint32(ioTicks)
		if q.id == 0 {
			limit = adminTicks
		}
		if err := q.overdue(limit); err != nil {
			a.fail(err)
			return
		}
	}
}

// traffic is that of all queues.
func (a *association) traffic() (t traffic) {
	for _, q := range a.attached() {
		t.add(q.traffic())
	}
	return t
}

// sendKeepAlive submits a Keep Alive command; its answer comes to a.keepAlives.
func (a *association) sendKeepAlive() {
	r := &Request{Op: opCommand, Owner: keepAliveOwner{a}, cmd: &command{sqe: wire.KeepAliveSQE()}}
	a.admin.Submit([]*Request{r})
}

// keepAliveOwner owns the Keep Alive commands.
type keepAliveOwner struct{ a *association }

// Complete implements Owner.
func (o keepAliveOwner) Complete(batch []*Request) {
	for _, r := range batch {
		switch status := r.cmd.cqe.Status; {
		case r.Err != nil: // the connection has ended
		case !status.OK():
			o.a.fail(&CommandError{Command: wire.AdminKeepAlive.String(), Status: status})
		default:
			select {
			case o.a.keepAlives <- struct{}{}:
			default:
			}
		}
	}
}
