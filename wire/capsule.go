package wire

import (
	"fmt"
	"log/slog"
	"strconv"
)

// AdminSQE is an SQE of an admin queue with a String for debug lines: the queue decides what an opcode means. Convert a pointer, as in
// slog.Debug("rx", "sqe", (*wire.AdminSQE)(&sqe)): no text is made and nothing is allocated until the line is written.
type AdminSQE SQE

// IOSQE is the same for an I/O queue.
type IOSQE SQE

// String is such as "identify controller nsid=0 cid=5 sgl=keyed addr=0x1000 len=4096 key=0x00000123 invalidate".
func (s *AdminSQE) String() string {
	q := (*SQE)(s)
	return string(q.appendTail(q.appendAdmin(nil)))
}

// String is such as "read nsid=1 slba=2048 blocks=8 cid=7 sgl=in-capsule off=0 len=4096".
func (s *IOSQE) String() string {
	q := (*SQE)(s)
	return string(q.appendTail(q.appendIO(nil)))
}

// LogValue makes slog form the text only for a line that is written.
func (s *AdminSQE) LogValue() slog.Value { return slog.StringValue(s.String()) }

// LogValue makes slog form the text only for a line that is written.
func (s *IOSQE) LogValue() slog.Value { return slog.StringValue(s.String()) }

// nsid is a namespace identifier as debug lines show it.
type nsid uint32

func (n nsid) String() string {
	if n == NSIDAll {
		return "all"
	}
	return strconv.FormatUint(uint64(n), 10)
}

func (s *SQE) appendTail(b []byte) []byte {
	b = fmt.Appendf(b, " cid=%d sgl=", s.CID)
	return s.SGL.appendText(b)
}

func (s *SQE) appendAdmin(b []byte) []byte {
	if s.Opcode == OpcodeFabrics {
		return s.appendFabrics(b)
	}
	op := AdminOpcode(s.Opcode)
	switch op {
	case AdminIdentify:
		return fmt.Appendf(b, "%s %s nsid=%s", op, ParseIdentify(s).CNS, nsid(s.NSID))
	case AdminGetLogPage:
		g := ParseGetLogPage(s)
		return fmt.Appendf(b, "%s %s nsid=%s off=%d bytes=%d", op, g.LID, nsid(s.NSID), g.LPO, g.Bytes())
	case AdminSetFeatures:
		f := ParseSetFeatures(s)
		return fmt.Appendf(b, "%s %s nsid=%s value=0x%x", op, f.FID, nsid(s.NSID), f.CDW11)
	case AdminGetFeatures:
		return fmt.Appendf(b, "%s %s nsid=%s", op, ParseGetFeatures(s).FID, nsid(s.NSID))
	case AdminAbort:
		a := ParseAbort(s)
		return fmt.Appendf(b, "%s sqid=%d aborted-cid=%d", op, a.SQID, a.CID)
	case AdminAsyncEventRequest, AdminKeepAlive:
		return append(b, op.String()...)
	}
	return fmt.Appendf(b, "%s nsid=%s", op, nsid(s.NSID))
}

func (s *SQE) appendIO(b []byte) []byte {
	if s.Opcode == OpcodeFabrics {
		return s.appendFabrics(b)
	}
	op := IOOpcode(s.Opcode)
	b = fmt.Appendf(b, "%s nsid=%s", op, nsid(s.NSID))
	switch op {
	case IORead, IOWrite, IOCompare, IOWriteZeroes, IOVerify, IOWriteUncorrectable:
		b = fmt.Appendf(b, " slba=%d blocks=%d", s.SLBA(), s.Blocks())
		if s.FUA() {
			b = append(b, " fua"...)
		}
		if op == IOWriteZeroes && s.DEAC() {
			b = append(b, " deac"...)
		}
	case IODSM:
		b = fmt.Appendf(b, " ranges=%d attributes=0x%x", s.DSMRanges(), uint32(s.DSMAttributes()))
	}
	return b
}

func (s *SQE) appendFabrics(b []byte) []byte {
	t := s.FabricsType()
	switch t {
	case FabricsConnect:
		c := ParseConnect(s)
		return fmt.Appendf(b, "%s qid=%d sqsize=%d kato=%d", t, c.QID, c.SQSize, c.KATO)
	case FabricsPropertyGet:
		return fmt.Appendf(b, "%s %s", t, ParsePropertyGet(s).Offset)
	case FabricsPropertySet:
		p := ParsePropertySet(s)
		return fmt.Appendf(b, "%s %s value=0x%x", t, p.Offset, p.Value)
	}
	return append(b, t.String()...)
}

// String is such as "cid=7 sqhd=3 result=0x0 LBA out of range (0x080), do not retry".
func (c *CQE) String() string {
	return fmt.Sprintf("cid=%d sqhd=%d result=0x%x %s", c.CID, c.SQHD, c.Result, c.Status)
}

// LogValue makes slog form the text only for a line that is written.
func (c *CQE) LogValue() slog.Value { return slog.StringValue(c.String()) }
