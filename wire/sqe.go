package wire

import "encoding/binary"

// SQESize is the length in bytes of a submission queue entry. A command capsule is one SQE, then its in-capsule data.
const SQESize = 64

// The fields of SQE.Flags (NVMe Base, Command Dword 0).
const (
	FlagsFUSE    = 0x03 // fused operation; 0 for none, which is all that the RDMA hosts use
	FlagsPSDT    = 0xC0 // PRP or SGL for data transfer
	FlagsPSDTSGL = 0x40 // PSDT 01b: SGL, the only value that NVMe over Fabrics allows
)

// An SQE is a submission queue entry: one command (NVMe Base, Common Command Format).
//
// For a Fabrics command, byte 4, the low byte of NSID, is the Fabrics Command Type.
type SQE struct {
	Opcode     uint8  // an AdminOpcode on the admin queue, an IOOpcode on the others, OpcodeFabrics on both
	Flags      uint8  // FUSE and PSDT
	CID        uint16 // command identifier; it comes back in the CQE, all 16 bits
	NSID       uint32 // namespace identifier
	CDW2, CDW3 uint32
	Metadata   uint64 // metadata pointer
	SGL        SGL    // data pointer (SGL1)
	CDW10      uint32
	CDW11      uint32
	CDW12      uint32
	CDW13      uint32
	CDW14      uint32
	CDW15      uint32
}

// Parse decodes the SQESize bytes of b.
func (s *SQE) Parse(b []byte) error {
	if len(b) != SQESize {
		return wantSize("submission queue entry", b, SQESize)
	}
	s.Opcode = b[0]
	s.Flags = b[1]
	s.CID = binary.LittleEndian.Uint16(b[2:])
	s.NSID = binary.LittleEndian.Uint32(b[4:])
	s.CDW2 = binary.LittleEndian.Uint32(b[8:])
	s.CDW3 = binary.LittleEndian.Uint32(b[12:])
	s.Metadata = binary.LittleEndian.Uint64(b[16:])
	s.SGL.get(b[24:40])
	s.CDW10 = binary.LittleEndian.Uint32(b[40:])
	s.CDW11 = binary.LittleEndian.Uint32(b[44:])
	s.CDW12 = binary.LittleEndian.Uint32(b[48:])
	s.CDW13 = binary.LittleEndian.Uint32(b[52:])
	s.CDW14 = binary.LittleEndian.Uint32(b[56:])
	s.CDW15 = binary.LittleEndian.Uint32(b[60:])
	return nil
}

// Put writes the entry to the first SQESize bytes of b.
func (s *SQE) Put(b []byte) {
	_ = b[SQESize-1]
	b[0] = s.Opcode
	b[1] = s.Flags
	binary.LittleEndian.PutUint16(b[2:], s.CID)
	binary.LittleEndian.PutUint32(b[4:], s.NSID)
	binary.LittleEndian.PutUint32(b[8:], s.CDW2)
	binary.LittleEndian.PutUint32(b[12:], s.CDW3)
	binary.LittleEndian.PutUint64(b[16:], s.Metadata)
	s.SGL.Put(b[24:40])
	binary.LittleEndian.PutUint32(b[40:], s.CDW10)
	binary.LittleEndian.PutUint32(b[44:], s.CDW11)
	binary.LittleEndian.PutUint32(b[48:], s.CDW12)
	binary.LittleEndian.PutUint32(b[52:], s.CDW13)
	binary.LittleEndian.PutUint32(b[56:], s.CDW14)
	binary.LittleEndian.PutUint32(b[60:], s.CDW15)
}

// Append adds the entry to b.
func (s *SQE) Append(b []byte) []byte {
	b, added := extend(b, SQESize)
	s.Put(added)
	return b
}

// FabricsType is the Fabrics Command Type of a command whose Opcode is OpcodeFabrics.
func (s *SQE) FabricsType() FabricsType { return FabricsType(s.NSID) }
