package wire

import "encoding/binary"

const (
	// DSMRangeSize is the length in bytes of one range of a Dataset Management command.
	DSMRangeSize = 16
	// MaxDSMRanges is the largest number of ranges of one command.
	MaxDSMRanges = 256
)

// DSMAttributes is dword 11 of a Dataset Management command: what to do with the ranges.
type DSMAttributes uint32

// The attributes.
const (
	DSMIntegralRead  DSMAttributes = 1 << 0 // IDR: the ranges will be read as a whole
	DSMIntegralWrite DSMAttributes = 1 << 1 // IDW: the ranges will be written as a whole
	DSMDeallocate    DSMAttributes = 1 << 2 // AD: the ranges may be deallocated
)

// A DSMRange is one range of a Dataset Management command (NVM Command Set, Range Definition).
type DSMRange struct {
	ContextAttributes uint32
	Blocks            uint32 // number of logical blocks, counted from one; 0 is an empty range
	SLBA              uint64
}

// Parse decodes DSMRangeSize bytes.
func (r *DSMRange) Parse(b []byte) error {
	if len(b) != DSMRangeSize {
		return wantSize("dataset management range", b, DSMRangeSize)
	}
	r.ContextAttributes = binary.LittleEndian.Uint32(b)
	r.Blocks = binary.LittleEndian.Uint32(b[4:])
	r.SLBA = binary.LittleEndian.Uint64(b[8:])
	return nil
}

// Put writes the range to the first DSMRangeSize bytes of b.
func (r *DSMRange) Put(b []byte) {
	_ = b[DSMRangeSize-1]
	binary.LittleEndian.PutUint32(b, r.ContextAttributes)
	binary.LittleEndian.PutUint32(b[4:], r.Blocks)
	binary.LittleEndian.PutUint64(b[8:], r.SLBA)
}

// Append adds the range to b.
func (r *DSMRange) Append(b []byte) []byte {
	b, added := extend(b, DSMRangeSize)
	r.Put(added)
	return b
}

// DSMSQE is a Dataset Management command for ranges ranges, 1 to MaxDSMRanges, without CID and SGL. Hosts may transfer more bytes than the
// ranges take: Linux always transfers 4096.
func DSMSQE(nsid uint32, ranges int, attributes DSMAttributes) SQE {
	s := newSQE(uint8(IODSM), nsid)
	s.CDW10 = uint32(ranges-1) & 0xFF
	s.CDW11 = uint32(attributes)
	return s
}

// DSMRanges is the number of ranges of a Dataset Management command, 1 to MaxDSMRanges: the field NR counts from zero.
func (s *SQE) DSMRanges() int { return int(s.CDW10&0xFF) + 1 }

// DSMAttributes is dword 11 of a Dataset Management command.
func (s *SQE) DSMAttributes() DSMAttributes { return DSMAttributes(s.CDW11) }
