package target

import (
	"time"

	"rbd/wire"
)

// executeAdmin hands a command to the controller.
func (q *queue) executeAdmin(s *slot) {
	r := q.request(s)
	if !q.ctrl.execute(r, time.Now()) {
		s.enter(slotParked)
		q.parked++
		return
	}
	if wire.AdminOpcode(s.sqe.Opcode) == wire.AdminSetFeatures {
		q.wake() // the keep alive timer may be another
	}
	q.answer(s)
}

// request makes a slot's request.
func (q *queue) request(s *slot) *request {
	s.request = request{sqe: &s.sqe, done: func(*request) { q.post(s) }}
	if s.xfer.dir == toHost {
		s.request.out = s.payload
	} else {
		s.request.in = s.payload
	}
	return &s.request
}

// executeConnect binds the queue to a controller. The answer to the Connect of an
// admin queue waits until its host may do I/O.
func (q *queue) executeConnect(s *slot) {
	r := q.request(s)
	c := connectRequest{cmd: wire.ParseConnect(&s.sqe), at: q.at, depth: len(q.mem.recvs), qid: q.hostQID}
	if q.state != queueNew { // another Connect was quicker, or the target is being shut down
		s.status = statusSequenceError
		q.finish(s)
		return
	}
	if err := c.data.Parse(r.in); err != nil {
		r.fail(statusLengthInvalid)
		q.answer(s)
		return
	}
	q.state = queueConnecting
	b := &binding{cut: q.cut, fence: q.fence}
	ctrl, live, no := q.t.connect(&c, b)
	if no != nil {
		q.t.logRefusal(&c, no)
		r.fail(no.status)
		r.result = uint64(no.result)
		q.answer(s)
		return
	}
	q.qid, q.sqSize = c.cmd.QID, c.cmd.SQSize+1
	q.noFlow = c.cmd.CAttr&wire.ConnectDisableSQFlow != 0
	r.result = uint64(wire.ConnectResult{CNTLID: ctrl.cntlid}.DW0())
	q.bound.Store(&bond{ctrl: ctrl, binding: b})
	if q.qid != 0 {
		q.answer(s)
		return
	}
	s.enter(slotParked)
	q.parked++
	timeout := ctrl.sub.kato(c.cmd.KATO)
	ctrl.await(live, q.t.cfg.DrainTimeout, func(err error) {
		if err != nil {
			q.t.logRefusal(&c, refuse(wire.StatusConnectControllerBusy, "%v", err))
			r.fail(wire.StatusConnectControllerBusy)
			r.result = 0
		} else {
			ctrl.admitted(timeout, time.Now())
		}
		r.done(r)
	})
}

// connectDone is the end of a Connect.
func (q *queue) connectDone(s *slot) {
	bound := q.bound.Load()
	if s.status.OK() {
		q.ctrl = bound.ctrl
		if q.state == queueConnecting {
			q.state = queueLive
		}
		if q.qid == 0 {
			q.t.log.Info("host connected", "host", q.ctrl.host.nqn, "hostid", q.ctrl.host.id.String(), "subsystem", q.ctrl.sub.nqn,
				"controller", q.ctrl.cntlid, "peer", q.peer)
		}
		q.wake()
		return
	}
	if q.state == queueConnecting {
		q.state = queueNew
	}
	if bound != nil {
		q.bound.Store(nil)
		bound.ctrl.abandon(bound.binding)
	}
}

// logRefusal tells why a host was refused.
func (t *Target) logRefusal(c *connectRequest, no *refusal) {
	if skipped, ok := t.refusals.allow(); ok {
		t.log.Warn("connect refused", "host", c.data.HostNQN.String(), "hostid", c.data.HostID.String(),
			"subsystem", c.data.SubNQN.String(), "queue", c.cmd.QID, "why", no.why, "status", no.status.FabricsString(), "more", skipped)
	}
}
