package target

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"rbd/wire"
)

// controllerState is where a controller is in its life.
type controllerState uint8

const (
	// controllerConnecting: its Connect is not answered yet.
	controllerConnecting controllerState = iota
	// controllerDisabled: connected; Fabrics commands only.
	controllerDisabled
	// controllerEnabled: all commands.
	controllerEnabled
	// controllerShuttingDown: namespaces are being flushed.
	controllerShuttingDown
	// controllerShutDown: as disabled, until a reset.
	controllerShutDown
	// controllerFailed: a fatal error; CSTS.CFS.
	controllerFailed
	// controllerGone: the admin queue was lost.
	controllerGone
)

func (s controllerState) String() string {
	names := [...]string{"connecting", "disabled", "enabled", "shutting down", "shut down", "failed", "gone"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("controllerState(%d)", uint8(s))
}

// controller is one host association: the state that its properties, features
// and log pages show. It takes commands and time, and does no I/O of its own.
type controller struct {
	sub    *subsystem
	cntlid uint16
	host   hostKey
	// listener is where the host has come in.
	listener *endpoint
	// ready is CC.EN and CSTS.RDY, for the I/O queues.
	ready atomic.Bool
	// ended: the controller is gone or has failed, and its connections are being cut.
	ended atomic.Bool
	// traffic: a command came since the keep alive timer was last looked at.
	traffic atomic.Bool
	// writeThrough: the host has turned the volatile write cache off.
	writeThrough atomic.Bool
	accounts     accounts

	mu        sync.Mutex
	state     controllerState
	cc        wire.CC
	csts      wire.CSTS
	keepAlive keepAlive
	events    events
	features  features
	errorLog  errorLog
	// discovery is the discovery log page as the host reads it.
	discovery []byte
	// answered are kept requests that unlock answers.
	answered []*request

	// queues are under the subsystem's mutex.
	queues    map[uint16]*binding
	admission *admission
}

// binding is a controller's hold on one of its queues.
type binding struct {
	qid uint16
	// cut ends the queue's connection. It does not wait.
	cut func(reason error)
	// fence calls its argument when the commands that the host has sent on the queue
	// have left the backends. It does not wait.
	fence func(done func())
	// lost: the connection has ended or is about to. Under the subsystem's mutex.
	lost bool
}

func newController(s *subsystem, cntlid uint16, h hostKey, at *endpoint, admin *binding) *controller {
	return &controller{sub: s, cntlid: cntlid, host: h, listener: at, queues: map[uint16]*binding{0: admin}, features: defaultFeatures()}
}

// enter makes every transition of the state, with what the host sees of it in
// CSTS. The caller holds mu.
func (c *controller) enter(next controllerState) {
	switch next {
	case controllerDisabled:
		c.csts = 0
	case controllerEnabled:
		c.csts = wire.CSTSRDY
	case controllerShuttingDown:
		c.csts = wire.CSTS(0).WithSHST(wire.ShutdownOccurring)
	case controllerShutDown:
		c.csts = wire.CSTS(0).WithSHST(wire.ShutdownComplete)
	case controllerFailed:
		c.csts = wire.CSTSCFS
	}
	c.state = next
	c.ended.Store(next == controllerGone || next == controllerFailed)
	c.ready.Store(next == controllerEnabled)
}

// admitted begins the life of a controller whose Connect is answered.
func (c *controller) admitted(kato time.Duration, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == controllerConnecting {
		c.enter(controllerDisabled)
		c.keepAlive.set(kato, now)
	}
}

// execute runs an admin queue command. It returns false if the controller keeps
// the request and answers it later. admit has let the command in.
func (c *controller) execute(r *request, now time.Time) bool {
	c.mu.Lock()
	defer c.unlock()
	if r.sqe.Opcode == wire.OpcodeFabrics {
		c.property(r)
		return true
	}
	switch wire.AdminOpcode(r.sqe.Opcode) {
	case wire.AdminIdentify:
		c.identify(r)
	case wire.AdminGetLogPage:
		c.getLogPage(r, now)
	case wire.AdminGetFeatures:
		c.getFeatures(r)
	case wire.AdminSetFeatures:
		c.setFeatures(r, now)
	case wire.AdminAsyncEventRequest:
		return c.asyncEventRequest(r)
	case wire.AdminKeepAlive:
		c.keepAliveCommand(r, now)
	case wire.AdminAbort:
		c.abort(r)
	default:
		r.fail(statusInvalidOpcode)
	}
	return true
}

// admit checks whether a command may come now, and tells what data it moves.
func (c *controller) admit(sqe *wire.SQE) (transfer, wire.Status) {
	if sqe.Opcode == wire.OpcodeFabrics {
		switch sqe.FabricsType() {
		case wire.FabricsPropertyGet, wire.FabricsPropertySet:
			return transfer{}, wire.StatusSuccess
		}
		return transfer{}, statusInvalidOpcode
	}
	if !c.ready.Load() {
		return transfer{}, statusSequenceError
	}
	return adminTransfer(sqe, c.sub.discovery)
}

// adminTransfer is the data of an admin command; a discovery controller has fewer
// commands.
func adminTransfer(sqe *wire.SQE, discovery bool) (transfer, wire.Status) {
	switch wire.AdminOpcode(sqe.Opcode) {
	case wire.AdminIdentify:
		return transfer{dir: toHost, n: wire.IdentifySize}, wire.StatusSuccess
	case wire.AdminGetLogPage:
		n := wire.ParseGetLogPage(sqe).Bytes()
		if n > maxTransfer {
			return transfer{}, statusInvalidField
		}
		return transfer{dir: toHost, n: uint32(n)}, wire.StatusSuccess
	case wire.AdminGetFeatures:
		return featureTransfer(sqe), wire.StatusSuccess
	case wire.AdminSetFeatures:
		return transfer{anySGL: true}, wire.StatusSuccess
	case wire.AdminAsyncEventRequest, wire.AdminKeepAlive:
		return transfer{}, wire.StatusSuccess
	case wire.AdminAbort:
		if !discovery {
			return transfer{}, wire.StatusSuccess
		}
	}
	return transfer{}, statusInvalidOpcode
}

// unlock releases mu, and then answers the kept requests that are due.
func (c *controller) unlock() {
	answered := c.answered
	c.answered = nil
	c.mu.Unlock()
	for _, r := range answered {
		r.done(r)
	}
}

// answer lets unlock answer a kept request.
func (c *controller) answer(r *request) { c.answered = append(c.answered, r) }

// abort answers an Abort: event requests can be aborted, other commands are not,
// as they end soon by themselves.
func (c *controller) abort(r *request) {
	a := wire.ParseAbort(r.sqe)
	r.result = 1
	if a.SQID != 0 {
		return
	}
	if aborted := c.events.take(a.CID); aborted != nil {
		aborted.fail(wire.StatusAbortRequested)
		c.answer(aborted)
		r.result = 0
	}
}

// bind adds an I/O queue. The status is that of its Connect.
func (c *controller) bind(b *binding) wire.Status {
	if !c.ready.Load() {
		return statusSequenceError
	}
	c.sub.mu.Lock()
	defer c.sub.mu.Unlock()
	switch old := c.queues[b.qid]; {
	case c.queues[0] == nil || c.queues[0].lost:
		return wire.StatusConnectControllerBusy
	case old != nil && old.lost:
		return wire.StatusConnectControllerBusy // it may be free soon
	case old != nil:
		return statusSequenceError
	}
	c.queues[b.qid] = b
	return wire.StatusSuccess
}

// lose notes that a queue was lost, or is given up. With the admin queue the whole
// association goes.
func (c *controller) lose(b *binding, reason error) {
	s := c.sub
	s.mu.Lock()
	if b.lost {
		s.mu.Unlock()
		return
	}
	lost := []*binding{b}
	if b.qid == 0 {
		delete(s.controllers, c.cntlid)
		s.live.release()
		lost = lost[:0]
		for _, q := range c.queues {
			if !q.lost {
				lost = append(lost, q)
			}
		}
	}
	for _, q := range lost {
		q.lost = true
		s.order.lose(c.host)
	}
	admission := c.admission
	s.mu.Unlock()
	if b.qid == 0 {
		if admission != nil {
			s.order.withdraw(admission)
		}
		c.end()
	}
	for _, q := range lost {
		q.cut(reason)
	}
}

// await calls ready when the Connect of this controller may be answered, or has
// waited too long.
func (c *controller) await(live bool, limit time.Duration, ready func(error)) {
	if live {
		c.sub.fenceOthers(c)
	}
	a := c.sub.order.admit(c.host, live, limit, ready)
	c.sub.mu.Lock()
	c.admission = a
	lost := c.queues[0] == nil || c.queues[0].lost
	c.sub.mu.Unlock()
	if lost && a != nil { // lose came before it could see the admission
		c.sub.order.withdraw(a)
	}
}

// abandon ends a controller whose Connect was refused after all.
func (c *controller) abandon(b *binding) {
	s := c.sub
	s.mu.Lock()
	gone := b.lost
	if !gone {
		b.lost = true
		delete(s.controllers, c.cntlid)
		s.live.release()
	}
	s.mu.Unlock()
	if gone {
		c.drained(b) // it was lost already, with nothing done
	}
}

// drained notes that nothing of a lost queue is left.
func (c *controller) drained(b *binding) {
	c.sub.mu.Lock()
	delete(c.queues, b.qid)
	c.sub.mu.Unlock()
	c.sub.order.drained(c.host)
}

// end is the end of the association. Event requests that were kept are dropped:
// their queue is gone.
func (c *controller) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.state == controllerEnabled || c.state == controllerFailed {
		c.sub.mu.Lock()
		c.sub.unsafeShutdowns++
		c.sub.mu.Unlock()
	}
	c.enter(controllerGone)
	c.events.parked = nil
}
