package target

import (
	"math"

	"rbd/wire"
)

// identify executes Identify.
func (c *controller) identify(r *request) {
	id := wire.ParseIdentify(r.sqe)
	if c.sub.discovery && id.CNS != wire.CNSController {
		r.fail(statusInvalidField)
		return
	}
	switch id.CNS {
	case wire.CNSController:
		page := c.identifyController()
		r.fill(page.Append(nil))
	case wire.CNSActiveNamespaces:
		c.activeNamespaces(r, id)
	case wire.CNSNamespace:
		c.identifyNamespace(r, id)
	case wire.CNSNamespaceDescriptors, wire.CNSCSINamespace, wire.CNSIndependentNamespace:
		n := c.sub.namespaces().get(id.NSID)
		switch {
		case id.CNS == wire.CNSCSINamespace && id.CSI != wire.CSINVM:
			r.fail(statusInvalidField)
		case n == nil:
			r.fail(statusInvalidNamespace)
		case id.CNS == wire.CNSNamespaceDescriptors:
			d := wire.NSDescriptors{UUID: n.uuid, NGUID: namespaceNGUID(n.uuid), CSI: wire.CSINVM, HasCSI: true}
			r.fill(d.Append(nil))
		case id.CNS == wire.CNSIndependentNamespace:
			page := n.identifyIndependent()
			r.fill(page.Append(nil))
		default:
			r.fill(nil) // no protection information: all zeros
		}
	case wire.CNSCSIController:
		if id.CSI != wire.CSINVM {
			r.fail(statusInvalidField)
			return
		}
		page := wire.IdentifyNVMController{}
		r.fill(page.Append(nil))
	default:
		r.fail(statusInvalidField)
	}
}

func (c *controller) activeNamespaces(r *request, id wire.Identify) {
	if id.NSID >= wire.NSIDAll-1 {
		r.fail(statusInvalidNamespace)
		return
	}
	var list wire.NSList
	for _, n := range c.sub.namespaces().active(id.NSID) {
		list = append(list, n.nsid)
	}
	r.fill(list.Append(nil))
}

// identifyNamespace answers zeros for an identifier that is valid but not active.
func (c *controller) identifyNamespace(r *request, id wire.Identify) {
	if id.NSID == 0 || id.NSID > maxNSID {
		r.fail(statusInvalidNamespace)
		return
	}
	n := c.sub.namespaces().get(id.NSID)
	if n == nil {
		r.fill(nil)
		return
	}
	page := n.identify()
	r.fill(page.Append(nil))
}

func (c *controller) identifyController() *wire.IdentifyController {
	cfg := &c.sub.t.cfg
	id := &wire.IdentifyController{
		RAB: 6, MDTS: mdts, CNTLID: c.cntlid, VER: version(),
		CMIC:      wire.CMICMultiPort | wire.CMICMultiController,
		OAES:      c.supportedEvents(),
		CTRATT:    wire.CTRATTHostID128 | wire.CTRATTTBKAS,
		CNTRLTYPE: wire.ControllerIO,
		ACL:       3, AERL: maxEventRequests - 1, FRMW: 3, // one read-only slot of firmware
		LPA:  wire.LPASmartPerNS | wire.LPACommandEffects | wire.LPAExtendedData,
		ELPE: errorLogEntries - 1,
		KAS:  10, // one second
		SQES: 0x66, CQES: 0x44, MAXCMD: uint16(cfg.QueueDepth),
		SGLS:   wire.SGLSSupported | wire.SGLSKeyed,
		SubNQN: wire.MakeNQNField(c.sub.nqn),
		IORCSZ: wire.CQESize / 16, IOCCSZ: uint32(wire.SQESize+cfg.InCapsuleBytes) / 16, MSDBD: 1,
	}
	if cfg.InCapsuleBytes > 0 {
		id.SGLS |= wire.SGLSOffset
	}
	id.PSD[0].MaxPower = 2500
	wire.PutText(id.SN[:], c.sub.serial)
	wire.PutText(id.MN[:], cfg.Model)
	wire.PutText(id.FR[:], cfg.Firmware)
	if c.sub.discovery {
		id.CNTRLTYPE = wire.ControllerDiscovery
		id.LPA = wire.LPAExtendedData
		return id
	}
	id.NN, id.MNAN = maxNSID, maxNSID
	id.ONCS = wire.ONCSCompare | wire.ONCSDSM | wire.ONCSWriteZeroes
	id.VWC = wire.VWCPresent
	return id
}

// identify is the namespace's Identify structure.
func (n *namespace) identify() *wire.IdentifyNamespace {
	blocks := n.blocks.Load()
	id := &wire.IdentifyNamespace{NSZE: blocks, NCAP: blocks, NUSE: blocks, NMIC: wire.NMICShared,
		NGUID: namespaceNGUID(n.uuid)}
	id.LBAF[0].LBADS = uint8(n.shift)
	if n.attr.ReadOnly {
		id.NSATTR = wire.NSATTRWriteProtected
	}
	if n.attr.ReadsZeroAfterTrim {
		id.DLFEAT = wire.DLFEATZeros
	}
	if n.attr.TrimGranularity > 0 {
		id.DLFEAT |= wire.DLFEATWriteZeroesDEAC
		if unit := n.attr.TrimGranularity >> n.shift; unit > 0 {
			id.NSFEAT = wire.NSFEATOptPerf
			g := uint16(min(unit-1, math.MaxUint16))
			id.NPWG, id.NPWA, id.NPDG, id.NPDA, id.NOWS = g, g, g, g, g
		}
	}
	return id
}

func (n *namespace) identifyIndependent() *wire.IdentifyIndependentNamespace {
	id := &wire.IdentifyIndependentNamespace{NMIC: wire.NMICShared, NSTAT: wire.NSTATReady}
	if n.attr.Rotational {
		id.NSFEAT |= wire.IndependentRotational
	}
	if !n.attr.VolatileCache {
		id.NSFEAT |= wire.IndependentNoVWC
	}
	if n.attr.ReadOnly {
		id.NSATTR = wire.NSATTRWriteProtected
	}
	return id
}
