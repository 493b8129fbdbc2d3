package wire

import "fmt"

// Lengths in bytes of the private data of the three RDMA CM messages (NVMe RDMA Transport). InfiniBand pads private data to the length of its MAD field, so that
// more may come than was sent.
const (
	CMRequestSize = 32
	CMReplySize   = 32
	CMRejectSize  = 4
)

// A CMRequest is the private data with which a host connects a queue.
type CMRequest struct {
	RecFmt   uint16   // record format; 0
	QID      uint16   // 0 for the admin queue
	HRQSize  uint16   // entries of the host's receive queue: how many responses it can take
	HSQSize  uint16   // entries of the host's send queue less one
	CNTLID   uint16   // controller identifier of an I/O queue; 0 on the admin queue
	Reserved [22]byte // zero in the standard; Linux ignores it
}

func (r *CMRequest) layout(l layout) {
	u16(l, 0, &r.RecFmt)
	u16(l, 2, &r.QID)
	u16(l, 4, &r.HRQSize)
	u16(l, 6, &r.HSQSize)
	u16(l, 8, &r.CNTLID)
	octets(l, 10, r.Reserved[:])
}

// Parse decodes the first CMRequestSize bytes of b; what follows them is padding of the fabric.
func (r *CMRequest) Parse(b []byte) error {
	return parsePadded(r, "rdma cm request private data", b, CMRequestSize)
}

// Append adds the private data to b.
func (r *CMRequest) Append(b []byte) []byte { return appendFixed(r, b, CMRequestSize) }

// A CMReply is the private data with which a target accepts a queue.
type CMReply struct {
	RecFmt   uint16   // record format; 0
	CRQSize  uint16   // entries of the controller's receive queue: how many commands it can take
	Reserved [28]byte // zero in the standard; Linux ignores it
}

func (r *CMReply) layout(l layout) {
	u16(l, 0, &r.RecFmt)
	u16(l, 2, &r.CRQSize)
	octets(l, 4, r.Reserved[:])
}

// Parse decodes the first CMReplySize bytes of b; what follows them is padding of the fabric.
func (r *CMReply) Parse(b []byte) error {
	return parsePadded(r, "rdma cm reply private data", b, CMReplySize)
}

// Append adds the private data to b.
func (r *CMReply) Append(b []byte) []byte { return appendFixed(r, b, CMReplySize) }

// A CMReject is the private data with which a target refuses a queue.
type CMReject struct {
	RecFmt uint16 // record format; 0
	Reason RejectReason
}

func (r *CMReject) layout(l layout) {
	u16(l, 0, &r.RecFmt)
	u16(l, 2, &r.Reason)
}

// Parse decodes the first CMRejectSize bytes of b; what follows them is padding of the fabric.
func (r *CMReject) Parse(b []byte) error {
	return parsePadded(r, "rdma cm reject private data", b, CMRejectSize)
}

// Append adds the private data to b.
func (r *CMReject) Append(b []byte) []byte { return appendFixed(r, b, CMRejectSize) }

// RejectReason is the status of a CMReject. It is an error in words.
type RejectReason uint16

// The reasons to refuse a queue.
const (
	RejectInvalidLength  RejectReason = 1 // the private data has a wrong length
	RejectInvalidRecFmt  RejectReason = 2
	RejectInvalidQID     RejectReason = 3
	RejectInvalidHSQSize RejectReason = 4
	RejectInvalidHRQSize RejectReason = 5
	RejectNoResources    RejectReason = 6
	RejectInvalidIRD     RejectReason = 7
	RejectInvalidORD     RejectReason = 8
	RejectInvalidCNTLID  RejectReason = 9
)

// Error is String.
func (r RejectReason) Error() string { return r.String() }

func (r RejectReason) String() string {
	switch r {
	case RejectInvalidLength:
		return "invalid private data length"
	case RejectInvalidRecFmt:
		return "invalid record format"
	case RejectInvalidQID:
		return "invalid queue identifier"
	case RejectInvalidHSQSize:
		return "invalid host send queue size"
	case RejectInvalidHRQSize:
		return "invalid host receive queue size"
	case RejectNoResources:
		return "no resources"
	case RejectInvalidIRD:
		return "invalid inbound read depth"
	case RejectInvalidORD:
		return "invalid outbound read depth"
	case RejectInvalidCNTLID:
		return "invalid controller identifier"
	}
	return fmt.Sprintf("reject reason %d", uint16(r))
}
