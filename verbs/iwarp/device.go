package iwarp

import (
	"fmt"
	"sync/atomic"

	"rbd/verbs"
)

// The limits of the device.
const (
	maxQPWR   = 16384
	maxSGE    = 16
	maxCQE    = 1 << 17
	maxMR     = keySlots / 2
	maxMRSize = 1 << 46
	maxIRD    = 128
	maxORD    = 128
	maxInline = 512
	// maxPrivateData keeps private data and words within the 256 bytes that
	// Soft-iWARP reads, and their sum within its eight-bit count.
	maxPrivateData = 251
	// maxMessage bounds the bytes of one work request.
	maxMessage = 1 << 31
)

type device struct {
	opts  options
	keys  keyTable
	qpNum atomic.Uint32
}

func (d *device) Name() string { return "iwarp0" }

func (d *device) Attr() verbs.DeviceAttr {
	return verbs.DeviceAttr{
		MaxQPWR: maxQPWR, MaxSGE: maxSGE, MaxSGERead: maxSGE, MaxCQE: maxCQE,
		MaxMR: maxMR, MaxMRSize: maxMRSize,
		MaxQPRdAtom: maxIRD, MaxQPInitRdAtom: maxORD,
		MaxInline: maxInline, MaxPrivateData: maxPrivateData, RemoteInvalidate: true, SendWithInv: true, RandomKeys: true,
	}
}

func (d *device) AllocPD() (verbs.PD, error) { return &pd{dev: d}, nil }

func (d *device) CreateCQ(attr verbs.CQAttr) (verbs.CQ, error) {
	if attr.Depth < 1 || attr.Depth > maxCQE {
		return nil, fmt.Errorf("create completion queue: depth %d is not in 1..%d: %w", attr.Depth, maxCQE, verbs.ErrInvalid)
	}
	return newCQ(d, attr), nil
}
