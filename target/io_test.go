package target

import (
	"bytes"
	"errors"
	"math/rand"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"rbd/target/backend"
	"rbd/wire"
)

// blocksOf reads blocks for a test.
func (q *hostQueue) blocksOf(slba uint64, blocks uint32) []byte {
	q.t.Helper()
	q.must(q.rangeCmd(wire.IORead, slba, blocks))
	return bytes.Clone(q.data(int(blocks) * 512))
}

// fill writes blocks of one byte.
func (q *hostQueue) fill(slba uint64, blocks uint32, b byte) {
	q.t.Helper()
	copy(q.data(int(blocks)*512), bytes.Repeat([]byte{b}, int(blocks)*512))
	q.must(q.rangeCmd(wire.IOWrite, slba, blocks))
}

func all(p []byte, b byte) bool { return bytes.Count(p, []byte{b}) == len(p) }

// TestIOErrors protects the statuses of I/O commands that can't be executed, and
// that none of them changes anything.
func TestIOErrors(t *testing.T) {
	e := newEnv(t)
	e.addRAM(1 << 20) // 2048 blocks
	ro, err := backend.NewRAM(1<<20, 512)
	if err != nil {
		t.Fatal(err)
	}
	e.add(backend.ReadOnly(ro), nil)
	_, cntlid := e.admin(testNQN)
	q := e.io(cntlid, 1, 16)
	q.fill(0, 2048, 7)
	rd := func(op wire.IOOpcode, slba uint64, blocks uint32, f ...func(*wire.SQE)) wire.SQE {
		sqe := q.rangeCmd(op, slba, blocks)
		for _, f := range f {
			f(&sqe)
		}
		return sqe
	}
	nsid := func(n uint32) func(*wire.SQE) { return func(s *wire.SQE) { s.NSID = n } }
	sgl := func(g wire.SGL) func(*wire.SQE) { return func(s *wire.SQE) { s.SGL = g } }
	dsm := func(n, bytes int) wire.SQE {
		s := wire.DSMSQE(1, n, wire.DSMDeallocate)
		s.SGL = q.keyed(bytes)
		return s
	}
	for _, c := range []struct {
		name string
		sqe  wire.SQE
		data []byte
		want wire.Status
	}{
		{name: "behind the end", sqe: rd(wire.IORead, 2048, 1), want: statusLBAOutOfRange},
		{name: "over the end", sqe: rd(wire.IORead, 2041, 8), want: statusLBAOutOfRange},
		{name: "wraps", sqe: rd(wire.IOWrite, 1<<64-4, 8), want: statusLBAOutOfRange},
		{name: "wraps in bytes", sqe: rd(wire.IOWrite, 1<<55, 8), want: statusLBAOutOfRange},
		{name: "zeroes over the end", sqe: rd(wire.IOWriteZeroes, 2047, 2), want: statusLBAOutOfRange},
		{name: "compare over the end", sqe: rd(wire.IOCompare, 2047, 2), want: statusLBAOutOfRange},
		{name: "longer than MDTS", sqe: rd(wire.IORead, 0, 2047, func(s *wire.SQE) { s.CDW12 = 2048 }), want: statusLBAOutOfRange},
		{name: "no namespace", sqe: rd(wire.IORead, 0, 1, nsid(0)), want: statusInvalidNamespace},
		{name: "unknown namespace", sqe: rd(wire.IORead, 0, 1, nsid(3)), want: statusInvalidNamespace},
		{name: "namespace beyond NN", sqe: rd(wire.IORead, 0, 1, nsid(1<<31)), want: statusInvalidNamespace},
		{name: "flush of all", sqe: wire.FlushSQE(wire.NSIDAll), want: statusInvalidNamespace},
		{name: "unknown opcode", sqe: rd(0x7E, 0, 1), want: statusInvalidOpcode},
		{name: "copy", sqe: rd(wire.IOCopy, 0, 1), want: statusInvalidOpcode},
		{name: "verify", sqe: rd(wire.IOVerify, 0, 1), want: statusInvalidOpcode},
		{name: "fabrics", sqe: wire.NewPropertyGet(wire.PropertyCAP).SQE(), want: statusInvalidOpcode},
		{name: "write to read-only", sqe: rd(wire.IOWrite, 0, 1, nsid(2)), want: statusWriteProtected},
		{name: "zeroes to read-only", sqe: rd(wire.IOWriteZeroes, 0, 1, nsid(2)), want: statusWriteProtected},
		{name: "short SGL", sqe: rd(wire.IOWrite, 0, 8, sgl(q.keyed(4095))), want: statusLengthInvalid},
		{name: "long SGL", sqe: rd(wire.IORead, 0, 8, sgl(q.keyed(4097))), want: statusLengthInvalid},
		{name: "zeroes with data", sqe: rd(wire.IOWriteZeroes, 0, 8, sgl(q.keyed(4096))), want: statusLengthInvalid},
		{name: "in-capsule read", sqe: rd(wire.IORead, 0, 1, sgl(wire.OffsetSGL(0, 512))), data: make([]byte, 512), want: statusInvalidField},
		{name: "in-capsule data is not there", sqe: rd(wire.IOWrite, 0, 1, sgl(wire.OffsetSGL(0, 512))), want: wire.StatusSGLOffsetInvalid | wire.StatusDNR},
		{name: "in-capsule data is short", sqe: rd(wire.IOWrite, 0, 1, sgl(wire.OffsetSGL(8, 512))), data: make([]byte, 512), want: wire.StatusSGLOffsetInvalid | wire.StatusDNR},
		{name: "in-capsule offset wraps", sqe: rd(wire.IOWrite, 0, 1, sgl(wire.OffsetSGL(1<<64-512, 512))), data: make([]byte, 512), want: wire.StatusSGLOffsetInvalid | wire.StatusDNR},
		{name: "in-capsule length differs", sqe: rd(wire.IOWrite, 0, 1, sgl(wire.OffsetSGL(0, 1024))), data: make([]byte, 1024), want: statusLengthInvalid},
		{name: "address in the capsule", sqe: rd(wire.IOWrite, 0, 1, sgl(wire.SGL{Length: 512})), data: make([]byte, 512), want: statusInvalidField},
		{name: "transport SGL", sqe: rd(wire.IOWrite, 0, 1, sgl(wire.SGL{Length: 512, Type: wire.SGLTransportDataBlock})), want: wire.StatusSGLTypeInvalid | wire.StatusDNR},
		{name: "short DSM", sqe: dsm(2, 31), want: statusLengthInvalid},
		{name: "PRP", sqe: rd(wire.IORead, 0, 1, func(s *wire.SQE) { s.Flags = 0x80 }), want: statusInvalidField},
		{name: "fused", sqe: rd(wire.IOCompare, 0, 1, func(s *wire.SQE) { s.Flags |= 2 }), want: statusInvalidField},
	} {
		if cqe := q.do(c.sqe, c.data...); cqe.Status != c.want|wire.StatusMore {
			t.Errorf("%s: %v, want %v", c.name, cqe.Status, c.want)
		}
	}
	if !all(q.blocksOf(0, 2048), 7) {
		t.Error("data has changed")
	}
	q.must(rd(wire.IORead, 0, 1, nsid(2)))
	q.must(wire.FlushSQE(2))
}

// TestLongTransfer protects MDTS on a namespace that is long enough for more.
func TestLongTransfer(t *testing.T) {
	e := newEnv(t)
	e.addRAM(4 << 20)
	_, cntlid := e.admin(testNQN)
	q := e.io(cntlid, 1, 16)
	if cqe := q.do(q.rangeCmd(wire.IORead, 0, 2049)); cqe.Status.Code() != wire.StatusInvalidField {
		t.Error(cqe.Status)
	}
	q.must(q.rangeCmd(wire.IORead, 0, 2048))
}

// TestOtherCommands protects what Write Zeroes, Dataset Management, Compare, Flush
// and FUA do to the data.
func TestOtherCommands(t *testing.T) {
	e := newEnv(t)
	e.addRAM(1 << 20)
	_, cntlid := e.admin(testNQN)
	q := e.io(cntlid, 1, 16)
	q.fill(0, 2048, 1)
	zeroes := wire.RangeSQE(wire.IOWriteZeroes, 1, 8, 8)
	q.must(zeroes)
	zeroes = wire.RangeSQE(wire.IOWriteZeroes, 1, 24, 8)
	zeroes.SetDEAC(true)
	zeroes.SetFUA(true)
	q.must(zeroes)
	if b := q.blocksOf(0, 40); !all(b[:8*512], 1) || !all(b[8*512:16*512], 0) || !all(b[16*512:24*512], 1) || !all(b[24*512:32*512], 0) || !all(b[32*512:], 1) {
		t.Error("write zeroes")
	}
	ranges := func(list ...wire.DSMRange) []byte {
		var b []byte
		for _, r := range list {
			b = r.Append(b)
		}
		return append(b, bytes.Repeat([]byte{0xFF}, 4096-len(b))...) // Linux sends a page, with anything in the rest
	}
	dsm := func(attr wire.DSMAttributes, n int, page []byte, inCapsule bool) wire.CQE {
		sqe := wire.DSMSQE(1, n, attr)
		if inCapsule {
			sqe.SGL = wire.OffsetSGL(0, 4096)
			return q.do(sqe, page...)
		}
		copy(q.data(4096), page)
		sqe.SGL = q.keyed(4096)
		return q.do(sqe)
	}
	two := ranges(wire.DSMRange{SLBA: 100, Blocks: 10}, wire.DSMRange{SLBA: 2000, Blocks: 48})
	if cqe := dsm(wire.DSMIntegralRead, 2, two, false); !cqe.Status.OK() || !all(q.blocksOf(100, 10), 1) {
		t.Errorf("advice that is not deallocation: %v", cqe.Status)
	}
	if cqe := dsm(wire.DSMDeallocate, 2, two, false); !cqe.Status.OK() || !all(q.blocksOf(100, 10), 0) || !all(q.blocksOf(2000, 48), 0) || !all(q.blocksOf(110, 20), 1) {
		t.Errorf("deallocate: %v", cqe.Status)
	}
	if cqe := dsm(wire.DSMDeallocate, 1, ranges(wire.DSMRange{SLBA: 300, Blocks: 1}), true); !cqe.Status.OK() || !all(q.blocksOf(300, 1), 0) {
		t.Errorf("deallocate, in capsule: %v", cqe.Status)
	}
	bad := ranges(wire.DSMRange{SLBA: 400, Blocks: 1}, wire.DSMRange{SLBA: 1<<64 - 1, Blocks: 2})
	if cqe := dsm(wire.DSMDeallocate, 2, bad, false); cqe.Status.Code() != wire.StatusLBAOutOfRange || !all(q.blocksOf(400, 1), 1) {
		t.Errorf("a bad range among good ones: %v", cqe.Status)
	}
	q.fill(500, 400, 9)
	copy(q.data(400*512), bytes.Repeat([]byte{9}, 400*512))
	q.must(q.rangeCmd(wire.IOCompare, 500, 400))
	q.data(400 * 512)[399*512+511] = 8
	if cqe := q.do(q.rangeCmd(wire.IOCompare, 500, 400)); cqe.Status.Code() != wire.StatusCompareFailure {
		t.Errorf("compare with other data: %v", cqe.Status)
	}
	q.must(wire.FlushSQE(1))
}

// TestBackendErrors protects hosts from success where the backend failed, and from
// data that it did not give.
func TestBackendErrors(t *testing.T) {
	e := newEnv(t)
	var fault error
	var mu sync.Mutex
	set := func(err error) { mu.Lock(); defer mu.Unlock(); fault = err }
	ram, err := backend.NewRAM(1<<20, 512)
	e.add(backend.Intercept(ram, func(backend.Op, int64, int64) error { mu.Lock(); defer mu.Unlock(); return fault }), err)
	_, cntlid := e.admin(testNQN)
	q := e.io(cntlid, 1, 16)
	dsm := wire.DSMSQE(1, 1, wire.DSMDeallocate)
	r := wire.DSMRange{Blocks: 1}
	for _, c := range []struct {
		name string
		sqe  wire.SQE
		err  error
		want wire.Status
	}{
		{"read", q.rangeCmd(wire.IORead, 0, 8), unix.EIO, wire.StatusUnrecoveredRead | wire.StatusDNR},
		{"compare", q.rangeCmd(wire.IOCompare, 0, 8), unix.EIO, wire.StatusUnrecoveredRead | wire.StatusDNR},
		{"write", q.rangeCmd(wire.IOWrite, 0, 8), unix.EIO, wire.StatusWriteFault | wire.StatusDNR},
		{"flush", wire.FlushSQE(1), unix.EIO, wire.StatusWriteFault | wire.StatusDNR},
		{"zeroes", q.rangeCmd(wire.IOWriteZeroes, 0, 8), errors.New("odd"), wire.StatusWriteFault | wire.StatusDNR},
		{"full", q.rangeCmd(wire.IOWrite, 0, 8), unix.ENOSPC, wire.StatusCapacityExceeded | wire.StatusDNR},
		{"shrunk", q.rangeCmd(wire.IOWrite, 0, 8), backend.ErrOutOfRange, statusLBAOutOfRange},
		{"read-only", q.rangeCmd(wire.IOWrite, 0, 8), backend.ErrReadOnly, statusWriteProtected},
		{"no memory", q.rangeCmd(wire.IOWrite, 0, 8), unix.ENOMEM, wire.StatusCommandInterrupted},
		{"dsm", dsm, unix.EIO, wire.StatusWriteFault | wire.StatusDNR},
	} {
		set(c.err)
		if c.name == "dsm" {
			copy(q.data(16), r.Append(nil))
			c.sqe.SGL = q.keyed(16)
		} else {
			q.data(1)[0] = 0xEE
		}
		if cqe := q.do(c.sqe); cqe.Status != c.want|wire.StatusMore {
			t.Errorf("%s: %v, want %v", c.name, cqe.Status, c.want)
		}
		if c.name == "read" && q.data(1)[0] != 0xEE {
			t.Error("a failed read has placed data")
		}
	}
	set(nil)
	q.must(q.rangeCmd(wire.IOWrite, 0, 8))
}

// TestRemoteInvalidate protects the rule when an answer may end the host's key: for
// 0x4F with data, and only with the exact key.
func TestRemoteInvalidate(t *testing.T) {
	e := newEnv(t)
	e.addRAM(1 << 20)
	_, cntlid := e.admin(testNQN)
	q := e.io(cntlid, 1, 16)
	mem := q.data(4096)
	for _, c := range []struct {
		name string
		sqe  wire.SQE
		ends bool
	}{
		{"read", q.rangeCmd(wire.IORead, 0, 8), true},
		{"write", q.rangeCmd(wire.IOWrite, 0, 8), true},
		{"out of range", q.rangeCmd(wire.IORead, 4000, 8), false},
		{"no data", wire.FlushSQE(1), false},
	} {
		mr, err := q.pd.RegMR(mem[:4096:4096], 7)
		if err != nil {
			t.Fatal(err)
		}
		if c.sqe.SGL.Length > 0 {
			c.sqe.SGL = wire.KeyedSGL(mr.Addr(), 4096, mr.RKey(), true)
		} else {
			c.sqe.SGL.Subtype, c.sqe.SGL.Key = wire.SGLInvalidate, mr.RKey()
		}
		q.cid++
		c.sqe.CID = q.cid
		q.send(c.sqe, nil)
		if _, err := q.answer(); err != nil {
			t.Fatal(err)
		}
		if ended := q.last.Flags != 0 && q.last.InvalidatedRKey == mr.RKey(); ended != c.ends {
			t.Errorf("%s: flags %d, key 0x%x of 0x%x", c.name, q.last.Flags, q.last.InvalidatedRKey, mr.RKey())
		}
		if err := mr.Dereg(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestManyQueues protects data and answers when several queues work at once on a
// file, with commands of all sizes in flight.
func TestManyQueues(t *testing.T) {
	e := newEnv(t)
	f, err := backend.OpenFile(t.TempDir()+"/disk", backend.FileOptions{CreateSize: 16 << 20})
	e.add(f, err)
	_, cntlid := e.admin(testNQN)
	var wg sync.WaitGroup
	for i := range 4 {
		q := e.io(cntlid, uint16(i+1), 16)
		wg.Go(func() { q.randomIO(uint64(i)*8192, 8192, 100, int64(i)) })
	}
	wg.Wait()
}

// randomIO writes and reads blocks of its own part, with a model beside it.
func (q *hostQueue) randomIO(first, blocks uint64, steps int, seed int64) {
	r := rand.New(rand.NewSource(seed))
	model := make([]byte, blocks*512)
	for range steps {
		slba := uint64(r.Intn(int(blocks)))
		n := 1 + uint64(r.Intn(int(min(300, blocks-slba))))
		part := model[slba*512 : (slba+n)*512]
		if r.Intn(2) == 0 {
			r.Read(part)
			copy(q.data(len(part)), part)
			sqe := q.rangeCmd(wire.IOWrite, first+slba, uint32(n))
			sqe.SetFUA(r.Intn(8) == 0)
			if n <= 16 {
				sqe.SGL = wire.OffsetSGL(0, uint32(len(part)))
				q.cid++
				sqe.CID = q.cid
				q.send(sqe, part)
				if cqe, err := q.answer(); err != nil || !cqe.Status.OK() {
					q.t.Errorf("write: %v, %v", cqe.Status, err)
				}
				continue
			}
			if cqe := q.do(sqe); !cqe.Status.OK() {
				q.t.Errorf("write: %v", cqe.Status)
			}
			continue
		}
		if cqe := q.do(q.rangeCmd(wire.IORead, first+slba, uint32(n))); !cqe.Status.OK() || !bytes.Equal(q.data(len(part)), part) {
			q.t.Errorf("read of %d blocks at %d: %v, or other data", n, slba, cqe.Status)
			return
		}
	}
}
