package target

import (
	"time"

	"rbd/wire"
)

// features are the feature values that a controller only keeps.
type features struct {
	arbitration   uint32
	errorRecovery uint32
	atomicity     uint32
	overTemp      uint16
	underTemp     uint16
	granted       uint32 // number of queues, as it was answered
}

func defaultFeatures() features { return features{overTemp: 0xFFFF} }

// featureTransfer is the data of Get Features: the host identifier alone has some.
func featureTransfer(sqe *wire.SQE) transfer {
	if wire.ParseGetFeatures(sqe).FID == wire.FeatureHostID {
		return transfer{dir: toHost, n: 16}
	}
	return transfer{}
}

// discoveryFeature tells which features a discovery controller has.
func discoveryFeature(id wire.FeatureID) bool {
	return id == wire.FeatureAsyncEvents || id == wire.FeatureKeepAlive
}

func (c *controller) getFeatures(r *request) {
	get := wire.ParseGetFeatures(r.sqe)
	if get.Select != wire.SelectCurrent || c.sub.discovery && !discoveryFeature(get.FID) {
		r.fail(statusInvalidField)
		return
	}
	f := &c.features
	switch get.FID {
	case wire.FeatureArbitration:
		r.result = uint64(f.arbitration)
	case wire.FeaturePowerManagement:
		r.result = 0
	case wire.FeatureTemperature:
		c.getTemperature(r, wire.ParseTemperatureThreshold(get.CDW11))
	case wire.FeatureErrorRecovery:
		r.result = uint64(f.errorRecovery)
	case wire.FeatureVolatileWriteCache:
		if !c.writeThrough.Load() {
			r.result = 1
		}
	case wire.FeatureNumberOfQueues:
		if r.result = uint64(f.granted); f.granted == 0 {
			r.result = uint64(wire.QueuePairs(uint16(c.sub.t.cfg.IOQueues)).DW())
		}
	case wire.FeatureWriteAtomicity:
		r.result = uint64(f.atomicity)
	case wire.FeatureAsyncEvents:
		r.result = uint64(c.events.enabled)
	case wire.FeatureKeepAlive:
		r.result = uint64(c.keepAlive.timeout / time.Millisecond)
	case wire.FeatureHostID:
		if get.CDW11&1 == 0 { // EXHID: fabrics has the 128-bit form only
			r.fail(statusInvalidField)
			return
		}
		r.fill(c.host.id[:])
	default:
		r.fail(statusInvalidField)
	}
}

func (c *controller) getTemperature(r *request, t wire.TemperatureThreshold) {
	switch {
	case t.TMPSEL != 0 || t.THSEL > 1:
		r.fail(statusInvalidField)
	case t.THSEL == 1:
		r.result = uint64(c.features.underTemp)
	default:
		r.result = uint64(c.features.overTemp)
	}
}

func (c *controller) setFeatures(r *request, now time.Time) {
	set := wire.ParseSetFeatures(r.sqe)
	if set.Save {
		r.fail(wire.StatusFeatureNotSaveable | wire.StatusDNR)
		return
	}
	if c.sub.discovery && !discoveryFeature(set.FID) {
		r.fail(statusInvalidField)
		return
	}
	f := &c.features
	switch set.FID {
	case wire.FeatureArbitration:
		f.arbitration = set.CDW11
	case wire.FeaturePowerManagement:
		if wire.ParsePowerManagement(set.CDW11).PS != 0 {
			r.fail(statusInvalidField)
		}
	case wire.FeatureTemperature:
		c.setTemperature(r, wire.ParseTemperatureThreshold(set.CDW11))
	case wire.FeatureErrorRecovery:
		if wire.ParseErrorRecovery(set.CDW11).DULBE {
			r.fail(statusInvalidField)
			return
		}
		f.errorRecovery = set.CDW11
	case wire.FeatureVolatileWriteCache:
		c.writeThrough.Store(set.CDW11&1 == 0)
	case wire.FeatureNumberOfQueues:
		c.setNumberOfQueues(r, set.CDW11)
	case wire.FeatureWriteAtomicity:
		f.atomicity = set.CDW11 & 1
	case wire.FeatureAsyncEvents:
		if set.CDW11&^c.supportedEvents() != 0 {
			r.fail(statusInvalidField)
			return
		}
		c.events.enabled = set.CDW11
		r.result = uint64(set.CDW11)
	case wire.FeatureKeepAlive:
		c.keepAlive.set(c.sub.kato(set.CDW11), now)
	case wire.FeatureHostID:
		r.fail(statusSequenceError) // Connect has set it
	default:
		r.fail(statusInvalidField)
	}
}

func (c *controller) setTemperature(r *request, t wire.TemperatureThreshold) {
	switch {
	case t.TMPSEL != 0 && t.TMPSEL != 15 || t.THSEL > 1:
		r.fail(statusInvalidField)
	case t.THSEL == 1:
		c.features.underTemp = t.TMPTH
	default:
		c.features.overTemp = t.TMPTH
	}
}

// setNumberOfQueues grants what is asked for, up to the limit.
func (c *controller) setNumberOfQueues(r *request, value uint32) {
	want := wire.ParseNumberOfQueues(value)
	if want.NSQ == 0xFFFF || want.NCQ == 0xFFFF {
		r.fail(statusInvalidField)
		return
	}
	c.sub.mu.Lock()
	inUse := len(c.queues) > 1
	c.sub.mu.Unlock()
	if inUse {
		r.fail(statusSequenceError)
		return
	}
	most := wire.QueuePairs(uint16(c.sub.t.cfg.IOQueues))
	c.features.granted = wire.NumberOfQueues{NSQ: min(want.NSQ, most.NSQ), NCQ: min(want.NCQ, most.NCQ)}.DW()
	r.result = uint64(c.features.granted)
}

// supportedEvents is OAES: the events that this controller may send.
func (c *controller) supportedEvents() uint32 {
	if c.sub.discovery {
		return wire.OAESDiscovery
	}
	return wire.OAESNamespace
}
