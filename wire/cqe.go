package wire

import "encoding/binary"

// CQESize is the length in bytes of a completion queue entry, and so of a response capsule over RDMA.
const CQESize = 16

// A CQE is a completion queue entry: the answer to one command (NVMe Base, Common Completion Queue Entry).
type CQE struct {
	Result uint64 // dwords 0 and 1, specific to the command
	SQHD   uint16 // submission queue head; 0xFFFF where flow control is disabled
	SQID   uint16 // submission queue identifier; reserved in NVMe over Fabrics
	CID    uint16 // of the command that is answered
	Phase  bool   // phase tag; reserved in NVMe over Fabrics
	Status Status
}

// Parse decodes the CQESize bytes of b.
func (c *CQE) Parse(b []byte) error {
	if len(b) != CQESize {
		return wantSize("completion queue entry", b, CQESize)
	}
	c.Result = binary.LittleEndian.Uint64(b)
	c.SQHD = binary.LittleEndian.Uint16(b[8:])
	c.SQID = binary.LittleEndian.Uint16(b[10:])
	c.CID = binary.LittleEndian.Uint16(b[12:])
	status := binary.LittleEndian.Uint16(b[14:])
	c.Phase, c.Status = status&1 != 0, Status(status>>1)
	return nil
}

// Put writes the entry to the first CQESize bytes of b.
func (c *CQE) Put(b []byte) {
	_ = b[CQESize-1]
	binary.LittleEndian.PutUint64(b, c.Result)
	binary.LittleEndian.PutUint16(b[8:], c.SQHD)
	binary.LittleEndian.PutUint16(b[10:], c.SQID)
	binary.LittleEndian.PutUint16(b[12:], c.CID)
	status := uint16(c.Status) << 1
	if c.Phase {
		status |= 1
	}
	binary.LittleEndian.PutUint16(b[14:], status)
}

// Append adds the entry to b.
func (c *CQE) Append(b []byte) []byte {
	b, added := extend(b, CQESize)
	c.Put(added)
	return b
}

// DW0 is the low dword of Result, where most commands have theirs.
func (c *CQE) DW0() uint32 { return uint32(c.Result) }
