package target

import "rbd/wire"

// readyTimeout is CAP.TO, in units of 500 ms: what the kernel's target tells.
const readyTimeout = 15

// version is VS: hosts need no more of a controller than these pages.
func version() wire.Version { return wire.MakeVersion(1, 4, 0) }

// property executes Property Get and Property Set.
func (c *controller) property(r *request) {
	if r.sqe.FabricsType() == wire.FabricsPropertySet {
		set := wire.ParsePropertySet(r.sqe)
		if set.Offset != wire.PropertyCC || set.Size != wire.PropertySize4 {
			r.fail(statusInvalidField)
			return
		}
		c.setCC(wire.CC(set.Value))
		return
	}
	get := wire.ParsePropertyGet(r.sqe)
	if get.Size.Bytes() == 0 || get.Size.Bytes() != get.Offset.Size() {
		r.fail(statusInvalidField)
		return
	}
	switch get.Offset {
	case wire.PropertyCAP:
		r.result = uint64(wire.MakeCAP(uint16(c.sub.t.cfg.QueueDepth-1), readyTimeout, wire.CAPCSSNVM))
	case wire.PropertyVS:
		r.result = uint64(version())
	case wire.PropertyCC:
		r.result = uint64(c.cc)
	case wire.PropertyCSTS:
		r.result = uint64(c.csts)
	default:
		r.fail(statusInvalidField)
	}
}

// setCC enables, resets and shuts down.
func (c *controller) setCC(cc wire.CC) {
	old := c.cc
	c.cc = cc
	switch {
	case cc.EN() && !old.EN():
		if c.validCC(cc) {
			c.enter(controllerEnabled)
		} else {
			c.enter(controllerFailed)
		}
	case !cc.EN() && old.EN():
		c.reset()
	}
	switch {
	case cc.SHN() != wire.ShutdownNone && old.SHN() == wire.ShutdownNone:
		c.shutdown()
	case cc.SHN() == wire.ShutdownNone && old.SHN() != wire.ShutdownNone && c.state == controllerShutDown:
		c.enter(controllerDisabled)
	}
}

// validCC checks what the host asks for at enabling. A discovery controller has no
// I/O queues, so their entry sizes don't matter.
func (c *controller) validCC(cc wire.CC) bool {
	entries := c.sub.discovery || cc.IOSQES() == 6 && cc.IOCQES() == 4
	css := cc.CSS() == wire.CCCSSNVM || cc.CSS() == wire.CCCSSAll
	return entries && css && cc.MPS() == 0 && cc.AMS() == 0
}

// reset is CC.EN from 1 to 0: outstanding event requests end.
func (c *controller) reset() {
	c.enter(controllerDisabled)
	for _, r := range c.events.parked {
		r.fail(wire.StatusSQDeleted)
		c.answer(r)
	}
	c.events = events{}
	c.features = defaultFeatures()
	c.writeThrough.Store(false)
}

// shutdown makes what was written durable before it tells that it is complete. If that
// fails the controller does: the host must not take it for a shutdown.
func (c *controller) shutdown() {
	var dirty []*namespace
	for _, n := range c.sub.namespaces().active(0) {
		if n.dirty() && !n.attr.ReadOnly && n.acquire() {
			dirty = append(dirty, n)
		}
	}
	if len(dirty) == 0 {
		c.enter(controllerShutDown)
		return
	}
	c.enter(controllerShuttingDown)
	c.sub.t.spawn(func() {
		done := controllerShutDown
		for _, n := range dirty {
			if err := n.flush(); err != nil {
				done = controllerFailed
				c.sub.t.log.Error("flush at shutdown", "subsystem", c.sub.nqn, "nsid", n.nsid, "err", err)
			}
			n.release()
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.state == controllerShuttingDown {
			c.enter(done)
		}
	})
}
