package target

import (
	"bytes"

	"rbd/target/backend"
	"rbd/wire"
)

// admitIO checks an I/O command, and sets its namespace and range.
func (q *queue) admitIO(s *slot) (transfer, wire.Status) {
	if !q.ctrl.ready.Load() {
		return transfer{}, statusSequenceError
	}
	n := q.ctrl.sub.namespaces().get(s.sqe.NSID)
	if n == nil || !n.acquire() {
		return transfer{}, statusInvalidNamespace
	}
	s.ns, s.off, s.length = n, 0, 0
	op := wire.IOOpcode(s.sqe.Opcode)
	if n.attr.ReadOnly && op != wire.IORead && op != wire.IOFlush && op != wire.IOCompare {
		return transfer{}, statusWriteProtected
	}
	switch op {
	case wire.IOFlush:
		return transfer{}, wire.StatusSuccess
	case wire.IODSM:
		return transfer{dir: toController, n: uint32(s.sqe.DSMRanges() * wire.DSMRangeSize), atLeast: true}, wire.StatusSuccess
	case wire.IORead, wire.IOWrite, wire.IOCompare, wire.IOWriteZeroes:
	default:
		return transfer{}, statusInvalidOpcode
	}
	slba, blocks := s.sqe.SLBA(), s.sqe.Blocks()
	if !wire.InRange(slba, blocks, n.blocks.Load()) {
		return transfer{}, statusLBAOutOfRange
	}
	s.off, s.length = int64(slba<<n.shift), int64(blocks)<<n.shift
	if op == wire.IOWriteZeroes {
		return transfer{}, wire.StatusSuccess
	}
	if s.length > maxTransfer {
		return transfer{}, statusInvalidField
	}
	x := transfer{dir: toController, n: uint32(s.length)}
	if op == wire.IORead {
		x.dir = toHost
	}
	return x, wire.StatusSuccess
}

// execute runs a command whose data, or room for it, is there.
func (q *queue) execute(s *slot) {
	if s.sqe.Opcode == wire.OpcodeFabrics && s.sqe.FabricsType() == wire.FabricsConnect {
		q.executeConnect(s)
		return
	}
	if q.qid == 0 {
		q.executeAdmin(s)
		return
	}
	s.enter(slotExecuting)
	err := s.tryIO()
	if err == backend.ErrWouldBlock { //nolint:errorlint // the Try methods answer this value itself
		s.ns.workers.submit(s)
		return
	}
	s.status = s.outcome(err)
	q.finish(s)
}

// tryIO executes the command unless that would wait.
func (s *slot) tryIO() error {
	switch op := wire.IOOpcode(s.sqe.Opcode); {
	case op == wire.IORead:
		return s.ns.backend.TryReadAt(s.payload, s.off)
	case op == wire.IOWrite:
		err := s.ns.backend.TryWriteAt(s.payload, s.off, s.flags())
		if err != backend.ErrWouldBlock { //nolint:errorlint // the Try methods answer this value itself
			s.ns.changed()
		}
		return err
	case s.ns.attr.NonBlocking && s.blocks() <= maxInline>>s.ns.shift:
		return s.doIO()
	}
	return backend.ErrWouldBlock
}

// maxInline is how many bytes a command may change on the queue's owner, whom nothing
// else can use meanwhile: as many as a read or write has at most.
const maxInline = maxTransfer

// blocks is how many blocks the command is about.
func (s *slot) blocks() (n uint64) {
	if wire.IOOpcode(s.sqe.Opcode) != wire.IODSM {
		return uint64(s.length) >> s.ns.shift
	}
	for b := s.payload; len(b) > 0; b = b[wire.DSMRangeSize:] {
		var r wire.DSMRange
		if r.Parse(b[:wire.DSMRangeSize]) == nil {
			n += uint64(r.Blocks) // at most 256 ranges of 32 bits
		}
	}
	return n
}

// runIO executes the command on a worker.
func (s *slot) runIO() wire.Status { return s.outcome(s.doIO()) }

func (s *slot) doIO() error {
	b := s.ns.backend
	switch wire.IOOpcode(s.sqe.Opcode) {
	case wire.IORead:
		return b.ReadAt(s.payload, s.off)
	case wire.IOWrite:
		defer s.ns.changed()
		return b.WriteAt(s.payload, s.off, s.flags())
	case wire.IOFlush:
		return s.ns.flush()
	case wire.IOCompare:
		return s.compare()
	case wire.IOWriteZeroes:
		defer s.ns.changed()
		flags := s.flags()
		if s.sqe.DEAC() {
			flags |= backend.Deallocate
		}
		return b.WriteZeroes(s.off, s.length, flags)
	default:
		return s.deallocate()
	}
}

// flags are those of a write.
func (s *slot) flags() backend.Flags {
	if s.sqe.FUA() || s.q.ctrl.writeThrough.Load() {
		return backend.FUA
	}
	return 0
}

// compareChunk is how much is compared at a time.
const compareChunk = 64 << 10

func (s *slot) compare() error {
	want, off := s.payload, s.off
	have := make([]byte, min(len(want), compareChunk))
	for len(want) > 0 {
		n := min(len(want), len(have))
		if err := s.ns.backend.ReadAt(have[:n], off); err != nil {
			return err
		}
		if !bytes.Equal(have[:n], want[:n]) {
			return errMiscompare
		}
		want, off = want[n:], off+int64(n)
	}
	return nil
}

// deallocate executes Dataset Management: all ranges are checked before the first
// is given back. What a host only tells about its use of the blocks is ignored.
func (s *slot) deallocate() error {
	if s.sqe.DSMAttributes()&wire.DSMDeallocate == 0 {
		return nil
	}
	blocks := s.ns.blocks.Load()
	for _, trim := range []bool{false, true} {
		for b := s.payload; len(b) > 0; b = b[wire.DSMRangeSize:] {
			var r wire.DSMRange
			if err := r.Parse(b[:wire.DSMRangeSize]); err != nil {
				return err
			}
			if !wire.InRange(r.SLBA, r.Blocks, blocks) {
				return backend.ErrOutOfRange
			}
			if trim && r.Blocks > 0 {
				err := s.ns.backend.Trim(int64(r.SLBA<<s.ns.shift), int64(r.Blocks)<<s.ns.shift)
				s.ns.changed()
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// outcome is the status for what the backend said. It counts and logs.
func (s *slot) outcome(err error) wire.Status {
	op := wire.IOOpcode(s.sqe.Opcode)
	status := backendStatus(err, op)
	if status.OK() {
		s.ns.count(op, uint64(s.length)>>s.ns.shift)
		return status
	}
	if status.SCT() == wire.SCTMedia && status.Code() != wire.StatusCompareFailure {
		s.ns.stats.errors.Add(1)
	}
	t := s.q.t
	if skipped, ok := t.ioErrors.allow(); ok {
		t.log.Error("i/o error", "subsystem", s.q.ctrl.sub.nqn, "nsid", s.ns.nsid, "command", op.String(), "err", err, "more", skipped)
	}
	return status
}
