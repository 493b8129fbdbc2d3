package frame

import "encoding/binary"

// TaggedSize is the size of the tagged header.
const TaggedSize = 16

// Tagged is the header of RDMA Write and RDMA Read Response.
type Tagged struct {
	Op      Opcode
	Last    bool
	STag    uint32
	TO      uint64
	Payload int // bytes after the header
}

// Append adds the TaggedSize bytes of the header.
func (h Tagged) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(TaggedSize-LengthSize+h.Payload))
	b = binary.BigEndian.AppendUint16(b, uint16(newControl(h.Op, true, h.Last)))
	b = binary.BigEndian.AppendUint32(b, h.STag)
	return binary.BigEndian.AppendUint64(b, h.TO)
}

// ParseTagged reads a header of TaggedSize bytes whose control word was checked.
// ok is false when ULPDU_Length is too short for it.
func ParseTagged(b []byte) (h Tagged, ok bool) {
	ulpdu, c := Prefix(b)
	h = Tagged{Op: c.Opcode(), Last: c.Last(), Payload: ulpdu - (TaggedSize - LengthSize),
		STag: binary.BigEndian.Uint32(b[4:]), TO: binary.BigEndian.Uint64(b[8:])}
	return h, h.Payload >= 0
}
