package wire

// MaxBlocks is the largest number of logical blocks of one Read, Write, Compare or Write Zeroes command.
const MaxBlocks = 1 << 16

// Bits of dword 12 of the commands that name a range of blocks (NVM Command Set, Read, Write, Write Zeroes).
const (
	rwLR   = 1 << 31 // limited retry
	rwFUA  = 1 << 30 // force unit access
	rwDEAC = 1 << 25 // deallocate, of Write Zeroes
)

// RangeSQE is a Read, Write, Compare, Write Zeroes, Verify or Write Uncorrectable command for blocks logical blocks, 1 to MaxBlocks, from slba on, without CID and SGL.
func RangeSQE(op IOOpcode, nsid uint32, slba uint64, blocks uint32) SQE {
	s := newSQE(uint8(op), nsid)
	s.CDW10, s.CDW11 = uint32(slba), uint32(slba>>32)
	s.CDW12 = (blocks - 1) & 0xFFFF
	return s
}

// FlushSQE is a Flush command, without CID; nsid NSIDAll flushes every namespace.
func FlushSQE(nsid uint32) SQE { return newSQE(uint8(IOFlush), nsid) }

// SLBA is the starting logical block of a Read, Write, Compare, Write Zeroes or Verify command. Any value may come from a peer.
func (s *SQE) SLBA() uint64 { return uint64(s.CDW11)<<32 | uint64(s.CDW10) }

// Blocks is the number of logical blocks of such a command, 1 to MaxBlocks: the field NLB counts from zero.
func (s *SQE) Blocks() uint32 { return s.CDW12&0xFFFF + 1 }

// FUA says that the data must be on stable storage before the command is answered.
func (s *SQE) FUA() bool { return s.CDW12&rwFUA != 0 }

// LR says that the controller should make limited efforts to recover from errors.
func (s *SQE) LR() bool { return s.CDW12&rwLR != 0 }

// DEAC says of a Write Zeroes command that the controller should deallocate the blocks.
func (s *SQE) DEAC() bool { return s.CDW12&rwDEAC != 0 }

// PRINFO is the protection information field: bit 3 PRACT, bits 2:0 PRCHK.
func (s *SQE) PRINFO() uint8 { return uint8(s.CDW12 >> 26 & 0xF) }

// SetFUA sets or clears force unit access.
func (s *SQE) SetFUA(on bool) { s.setCDW12(rwFUA, on) }

// SetLR sets or clears limited retry.
func (s *SQE) SetLR(on bool) { s.setCDW12(rwLR, on) }

// SetDEAC sets or clears the deallocation by a Write Zeroes command.
func (s *SQE) SetDEAC(on bool) { s.setCDW12(rwDEAC, on) }

func (s *SQE) setCDW12(bit uint32, on bool) {
	if on {
		s.CDW12 |= bit
	} else {
		s.CDW12 &^= bit
	}
}

// InRange says whether blocks from slba on are all within a namespace of nsze blocks, for any value of the three.
func InRange(slba uint64, blocks uint32, nsze uint64) bool {
	return slba <= nsze && uint64(blocks) <= nsze-slba
}
