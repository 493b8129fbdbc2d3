package verbs

// Provider is one way to reach RDMA devices: the software iWARP stack, or
// rdma-core.
type Provider interface {
	// Name is the scheme of the provider's addresses: "iwarp" or "rdma".
	Name() string
	// Devices lists the devices that can be used now. The error names what is
	// missing and the remedy when there is nothing to list.
	Devices() ([]Device, error)
	CM
}

// DeviceAttr are the limits of a device (ibv_device_attr).
type DeviceAttr struct {
	// MaxQPWR bounds the work requests outstanding on one queue of a QP.
	MaxQPWR int
	// MaxSGE bounds the SGEs of a SEND, RDMA WRITE or RECV; MaxSGERead those of
	// an RDMA READ.
	MaxSGE, MaxSGERead int
	// MaxCQE bounds the depth of a CQ.
	MaxCQE int
	// MaxMR bounds the memory regions; MaxMRSize the bytes of one.
	MaxMR     int
	MaxMRSize uint64
	// MaxQPRdAtom bounds inbound RDMA READs of one QP (responder resources),
	// MaxQPInitRdAtom the outbound ones (initiator depth).
	MaxQPRdAtom, MaxQPInitRdAtom int
	// MaxInline is the largest payload that SendInline may carry.
	MaxInline int
	// MaxPrivateData bounds the private data of a connect, accept or reject.
	MaxPrivateData int
	// RemoteInvalidate: SendWithInv of a peer can invalidate a region here.
	RemoteInvalidate bool
	// SendWithInv: WRSendWithInv can be posted here.
	SendWithInv bool
	// RandomKeys: all bits of the regions' keys are random. Adapters hand keys out
	// by index: there the protection domain, not the key, keeps peers apart.
	RandomKeys bool
}

// Device is an open RDMA device (ibv_context).
type Device interface {
	// Name is the device's name, such as "iwarp0" or "mlx5_0".
	Name() string
	// Attr tells the limits (ibv_query_device).
	Attr() DeviceAttr
	// AllocPD makes a protection domain.
	AllocPD() (PD, error)
	// CreateCQ makes a completion queue. ErrInvalid if the depth is out of range.
	CreateCQ(attr CQAttr) (CQ, error)
}
