package target

import (
	"time"

	"rbd/wire"
)

// getLogPage executes Get Log Page.
func (c *controller) getLogPage(r *request, now time.Time) {
	get := wire.ParseGetLogPage(r.sqe)
	page, ok := c.logPage(&get, now)
	if !ok {
		r.fail(statusInvalidField)
		return
	}
	n, ok := get.Window(uint64(len(page)))
	if !ok {
		r.fail(statusInvalidField)
		return
	}
	r.fill(page[get.LPO : get.LPO+n])
	if get.RAE {
		return
	}
	switch get.LID {
	case wire.LogChangedNS:
		c.events.changed, c.events.overflow = nil, false
		c.events.read(eventNamespace)
	case wire.LogDiscovery:
		c.events.read(eventDiscovery)
	}
}

// logPage makes a page; not ok if there is none of that kind.
func (c *controller) logPage(get *wire.GetLogPage, now time.Time) (page []byte, ok bool) {
	if c.sub.discovery {
		if get.LID != wire.LogDiscovery {
			return nil, false
		}
		return c.discoveryPage(get.LPO), true
	}
	switch get.LID {
	case wire.LogError:
		return c.errorLog.page(), true
	case wire.LogSmart:
		smart, ok := c.smart(get.NSID, now)
		if !ok {
			return nil, false
		}
		return smart.Append(nil), true
	case wire.LogFirmwareSlot:
		l := wire.FirmwareSlotLog{AFI: 1}
		wire.PutText(l.FRS[0][:], c.sub.t.cfg.Firmware)
		return l.Append(nil), true
	case wire.LogChangedNS:
		return c.events.changedNamespaces().Append(nil), true
	case wire.LogCommandEffects:
		return commandEffects().Append(nil), true
	}
	return nil, false
}

// discoveryPage is log page 70h. A host reads it in pieces, and not every one looks at
// the generation again after the last: libnvme 1.3 does not. So all pieces are of the
// page as it was when its begin was read.
func (c *controller) discoveryPage(offset uint64) []byte {
	if offset == 0 || c.discovery == nil {
		c.discovery = c.sub.t.discoveryLog(c.host.nqn, c.listener)
	}
	return c.discovery
}

// smart is log page 02h of one namespace, or of all.
func (c *controller) smart(nsid uint32, now time.Time) (*wire.SmartLog, bool) {
	list := c.sub.namespaces().active(0)
	if nsid != 0 && nsid != wire.NSIDAll {
		n := c.sub.namespaces().get(nsid)
		if n == nil {
			return nil, false
		}
		list = []*namespace{n}
	}
	s := &wire.SmartLog{}
	var bytesRead, bytesWritten uint64
	for _, n := range list {
		bytesRead += n.stats.blocksRead.Load() << n.shift
		bytesWritten += n.stats.blocksWritten.Load() << n.shift
		s.HostReads.Lo += n.stats.reads.Load()
		s.HostWrites.Lo += n.stats.writes.Load()
		s.MediaErrors.Lo += n.stats.errors.Load()
	}
	s.DataUnitsRead.Lo, s.DataUnitsWritten.Lo = dataUnits(bytesRead), dataUnits(bytesWritten)
	s.PowerOnHours.Lo = uint64(now.Sub(c.sub.t.started) / time.Hour)
	s.ErrorLogEntries.Lo = c.errorLog.count
	c.sub.mu.Lock()
	s.UnsafeShutdowns.Lo = c.sub.unsafeShutdowns
	c.sub.mu.Unlock()
	return s, true
}

// dataUnits counts thousands of 512 bytes, rounded up.
func dataUnits(n uint64) uint64 {
	const unit = 512 * 1000
	return n/unit + min(n%unit, 1)
}

// commandEffects is log page 05h.
func commandEffects() *wire.CommandEffectsLog {
	l := &wire.CommandEffectsLog{}
	for _, op := range []wire.AdminOpcode{wire.AdminGetLogPage, wire.AdminIdentify, wire.AdminAbort, wire.AdminSetFeatures,
		wire.AdminGetFeatures, wire.AdminAsyncEventRequest, wire.AdminKeepAlive} {
		l.Admin[op] = wire.EffectSupported
	}
	for _, op := range []wire.IOOpcode{wire.IORead, wire.IOFlush, wire.IOCompare} {
		l.IO[op] = wire.EffectSupported
	}
	for _, op := range []wire.IOOpcode{wire.IOWrite, wire.IODSM, wire.IOWriteZeroes} {
		l.IO[op] = wire.EffectSupported | wire.EffectBlockContent
	}
	return l
}
