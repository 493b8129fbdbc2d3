package target

import (
	"slices"

	"rbd/wire"
)

// maxEventRequests is how many Asynchronous Event Requests may be outstanding,
// AERL plus one.
const maxEventRequests = 4

// event is a kind of asynchronous event.
type event uint8

const (
	eventNamespace event = iota
	eventDiscovery
	eventCount
)

// bit is the event's bit in OAES and in feature 0Bh.
func (e event) bit() uint32 {
	if e == eventDiscovery {
		return wire.OAESDiscovery
	}
	return wire.OAESNamespace
}

func (e event) dw0() uint32 {
	if e == eventDiscovery {
		return wire.DiscoveryChanged().DW0()
	}
	return wire.NamespaceChanged().DW0()
}

// events keeps what a controller has to tell. Each kind of event is told once,
// and again only after its log page was read: the page says it all.
type events struct {
	enabled uint32     // bits that feature 0Bh turned on
	parked  []*request // Asynchronous Event Requests, oldest first
	due     [eventCount]bool
	told    [eventCount]bool
	// changed are the namespaces of log page 04h.
	changed  wire.NSList
	overflow bool
}

// take removes the parked request with an identifier.
func (e *events) take(cid uint16) *request {
	i := slices.IndexFunc(e.parked, func(r *request) bool { return r.sqe.CID == cid })
	if i < 0 {
		return nil
	}
	r := e.parked[i]
	e.parked = slices.Delete(e.parked, i, i+1)
	return r
}

// next decides which request is answered with which event; nil if none is.
func (e *events) next() *request {
	for kind := range eventCount {
		if e.due[kind] && len(e.parked) > 0 {
			r := e.parked[0]
			e.parked = slices.Delete(e.parked, 0, 1)
			e.due[kind], e.told[kind] = false, true
			r.result = uint64(kind.dw0())
			return r
		}
	}
	return nil
}

// read notes that the log page of a kind was read.
func (e *events) read(kind event) { e.due[kind], e.told[kind] = false, false }

// asyncEventRequest keeps the request until there is something to tell.
func (c *controller) asyncEventRequest(r *request) bool {
	if len(c.events.parked) >= maxEventRequests {
		r.fail(wire.StatusAsyncLimitExceeded | wire.StatusDNR)
		return true
	}
	c.events.parked = append(c.events.parked, r)
	return c.events.next() == r // any older one would have been answered already
}

// raise tells the host of an event, if it wants to know.
func (c *controller) raise(kind event) {
	c.mu.Lock()
	defer c.unlock()
	if c.events.enabled&kind.bit() != 0 && !c.events.told[kind] {
		c.events.due[kind] = true
		if r := c.events.next(); r != nil {
			c.answer(r)
		}
	}
}

// namespaceChanged notes a namespace for log page 04h, and raises the event.
func (c *controller) namespaceChanged(nsid uint32) {
	c.mu.Lock()
	e := &c.events
	if i, found := slices.BinarySearch(e.changed, nsid); !found && !e.overflow {
		if e.overflow = len(e.changed) == wire.MaxNSList; !e.overflow {
			e.changed = slices.Insert(e.changed, i, nsid)
		}
	}
	c.mu.Unlock()
	c.raise(eventNamespace)
}

// changedNamespaces is log page 04h.
func (e *events) changedNamespaces() wire.NSList {
	if e.overflow {
		return wire.NSList{wire.TooManyChangedNamespaces}
	}
	return e.changed
}
