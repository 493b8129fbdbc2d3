package frame

import "encoding/binary"

// UntaggedSize is the size of the untagged header.
const UntaggedSize = 20

// Untagged is the header of the Sends, and the first part of Read Request and
// Terminate.
type Untagged struct {
	Op      Opcode
	Last    bool
	InvSTag uint32 // for the opcodes that invalidate, else zero
	QN      uint32
	MSN     uint32
	MO      uint32
	Payload int // bytes after the header
}

// Append adds the UntaggedSize bytes of the header.
func (h Untagged) Append(b []byte) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(UntaggedSize-LengthSize+h.Payload))
	b = binary.BigEndian.AppendUint16(b, uint16(newControl(h.Op, false, h.Last)))
	b = binary.BigEndian.AppendUint32(b, h.InvSTag)
	b = binary.BigEndian.AppendUint32(b, h.QN)
	b = binary.BigEndian.AppendUint32(b, h.MSN)
	return binary.BigEndian.AppendUint32(b, h.MO)
}

// ParseUntagged reads a header of UntaggedSize bytes whose control word was
// checked. ok is false when ULPDU_Length is too short for it.
func ParseUntagged(b []byte) (h Untagged, ok bool) {
	ulpdu, c := Prefix(b)
	h = Untagged{Op: c.Opcode(), Last: c.Last(), InvSTag: binary.BigEndian.Uint32(b[4:]), QN: binary.BigEndian.Uint32(b[8:]),
		MSN: binary.BigEndian.Uint32(b[12:]), MO: binary.BigEndian.Uint32(b[16:]), Payload: ulpdu - (UntaggedSize - LengthSize)}
	return h, h.Payload >= 0
}
