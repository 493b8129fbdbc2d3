package frame

import "encoding/binary"

const (
	readBodySize = 28
	// ReadRequestSize is the size of the untagged header and the Read Request
	// header after it; there is no payload.
	ReadRequestSize = UntaggedSize + readBodySize
)

// ReadRequest is an RDMA Read Request message.
type ReadRequest struct {
	MSN      uint32
	SinkSTag uint32
	SinkTO   uint64
	Length   uint32 // RDMA Read Message Size
	SrcSTag  uint32
	SrcTO    uint64
}

// Append adds the ReadRequestSize bytes of the message.
func (r ReadRequest) Append(b []byte) []byte {
	b = Untagged{Op: OpReadRequest, Last: true, QN: QueueReadRequest, MSN: r.MSN, Payload: readBodySize}.Append(b)
	b = binary.BigEndian.AppendUint32(b, r.SinkSTag)
	b = binary.BigEndian.AppendUint64(b, r.SinkTO)
	b = binary.BigEndian.AppendUint32(b, r.Length)
	b = binary.BigEndian.AppendUint32(b, r.SrcSTag)
	return binary.BigEndian.AppendUint64(b, r.SrcTO)
}

// ParseReadRequest reads a message of ReadRequestSize bytes. ok is false when
// ULPDU_Length is another or the message is segmented.
func ParseReadRequest(b []byte) (r ReadRequest, h Untagged, ok bool) {
	h, ok = ParseUntagged(b)
	p := b[UntaggedSize:ReadRequestSize]
	r = ReadRequest{MSN: h.MSN, SinkSTag: binary.BigEndian.Uint32(p), SinkTO: binary.BigEndian.Uint64(p[4:]),
		Length: binary.BigEndian.Uint32(p[12:]), SrcSTag: binary.BigEndian.Uint32(p[16:]), SrcTO: binary.BigEndian.Uint64(p[20:])}
	return r, h, ok && h.Payload == readBodySize && h.Last
}
