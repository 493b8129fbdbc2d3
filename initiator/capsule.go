package initiator

import (
	"rbd/verbs"
	"rbd/wire"
)

const (
	// capsuleStride is the room of one command capsule: the SQE, and the range of a
	// Dataset Management command behind it, where it is in-capsule data.
	capsuleStride = 128
	// maxInCapsule bounds the in-capsule data that is sent, whatever more the
	// controller would take.
	maxInCapsule = 8192
	// zeroesSize is how many zeros lie behind the capsules of a queue, for writes in
	// place of Write Zeroes.
	zeroesSize = 64 << 10
)

// capsules is the registered memory of a queue's command capsules, one per slot,
// and, behind them, of zeros.
type capsules struct {
	mem []byte
	mr  verbs.MR
	// inCapsule is how many bytes of data may follow an SQE, 0 for none.
	inCapsule uint64
	// lkey and rkey are of the memory that has the data of reads and writes.
	lkey, rkey uint32
}

func (c *capsules) at(i int) []byte { return c.mem[i*capsuleStride : (i+1)*capsuleStride] }

func (c *capsules) sge(i int, length uint32) verbs.SGE {
	return verbs.SGE{Addr: c.mr.Addr() + uint64(i*capsuleStride), Length: length, LKey: c.mr.LKey()}
}

// build writes the capsule for the next part of r into slot i and says what the
// SEND gathers: the capsule, and the request's buffer if that is in-capsule data.
func (c *capsules) build(x *exchange, i int, r *Request) []verbs.SGE {
	s := &x.slots[i]
	var sqe wire.SQE
	inside := uint64(0) // bytes of r.Buf that go in the capsule
	length := uint32(wire.SQESize)
	if r.Op != opCommand { // which has its buffer for this connection
		r.Buf.LKey, r.Buf.RKey = c.lkey, c.rkey // it may be lent since another device
	}
	switch r.command() {
	case opCommand:
		sqe = r.cmd.sqe
		inside = c.data(&sqe, r, r.Length, r.cmd.inCapsule)
	case OpRead:
		sqe = r.rangeSQE(wire.IORead, r.info.maxTransfer)
		c.data(&sqe, r, r.chunk, false)
	case OpWrite:
		sqe = r.rangeSQE(wire.IOWrite, r.info.maxTransfer)
		sqe.SetFUA(r.FUA)
		inside = c.data(&sqe, r, r.chunk, true)
	case OpWriteZeroes:
		if r.zeroesAsData {
			sqe = r.rangeSQE(wire.IOWrite, min(r.info.maxTransfer, zeroesSize))
			sqe.SetFUA(r.FUA)
			sqe.SGL = wire.KeyedSGL(c.mr.Addr()+uint64(len(c.mem)-zeroesSize), uint32(r.chunk), c.mr.RKey(), false)
			break
		}
		sqe = r.rangeSQE(wire.IOWriteZeroes, r.info.maxZeroes)
		sqe.SetFUA(r.FUA)
		sqe.SetDEAC(r.info.deallocateZeroes && !r.NoUnmap)
	case OpFlush:
		sqe = wire.FlushSQE(r.NSID)
	case OpTrim:
		sqe = wire.DSMSQE(r.NSID, 1, wire.DSMDeallocate)
		length += c.trimRange(&sqe, i, r)
	}
	sqe.CID = x.cid(i)
	sqe.Put(c.at(i))
	s.sges[0] = c.sge(i, length)
	if inside == 0 {
		return s.sges[:1]
	}
	s.gathers = true
	s.sges[1] = verbs.SGE{Addr: r.Buf.Addr + r.done, Length: uint32(inside), LKey: r.Buf.LKey}
	return s.sges[:2]
}

// rangeSQE is the command for what is left of r, at most limit bytes of it.
func (r *Request) rangeSQE(op wire.IOOpcode, limit uint64) wire.SQE {
	r.chunk = min(r.Length-r.done, limit)
	return wire.RangeSQE(op, r.NSID, (r.Offset+r.done)>>r.info.shift, uint32(r.chunk>>r.info.shift))
}

// data describes n bytes of the request's buffer: in the capsule if they may be
// there, else by their key. It returns how many are in the capsule.
func (c *capsules) data(sqe *wire.SQE, r *Request, n uint64, mayInside bool) uint64 {
	switch {
	case n == 0:
		sqe.SGL = wire.NoDataSGL()
	case mayInside && n <= c.inCapsule:
		sqe.SGL = wire.OffsetSGL(0, uint32(n))
		return n
	default:
		sqe.SGL = wire.KeyedSGL(r.Buf.Addr+r.done, uint32(n), r.Buf.RKey, false)
	}
	return 0
}

// trimRange writes the range for what is left of r behind the SQE. It returns how
// many bytes the capsule grows by.
func (c *capsules) trimRange(sqe *wire.SQE, i int, r *Request) uint32 {
	r.chunk = min(r.Length-r.done, r.info.maxTrim)
	rg := wire.DSMRange{SLBA: (r.Offset + r.done) >> r.info.shift, Blocks: uint32(r.chunk >> r.info.shift)}
	rg.Put(c.at(i)[wire.SQESize:])
	if c.inCapsule >= wire.DSMRangeSize {
		sqe.SGL = wire.OffsetSGL(0, wire.DSMRangeSize)
		return wire.DSMRangeSize
	}
	addr := c.mr.Addr() + uint64(i*capsuleStride+wire.SQESize)
	sqe.SGL = wire.KeyedSGL(addr, wire.DSMRangeSize, c.mr.RKey(), false)
	return 0
}
