package target

import (
	"errors"
	"fmt"

	"rbd/wire"
)

// receive begins a command. A capsule that finds no slot waits: there are slots
// again when answers complete.
func (q *queue) receive(c capsule) {
	if q.state >= queueDraining {
		return
	}
	s := q.take()
	if s == nil {
		q.early = append(q.early, c)
		return
	}
	b := q.mem.capsule(c.recv)[:c.n]
	s.recv = c.recv
	s.status, s.xfer, s.invalidate, s.ownsCID = wire.StatusSuccess, transfer{}, false, false
	if len(b) < wire.SQESize {
		q.broken(fmt.Errorf("a command capsule of %d bytes", len(b)))
		q.release(s)
		return
	}
	if err := s.sqe.Parse(b[:wire.SQESize]); err != nil {
		q.broken(err)
		q.release(s)
		return
	}
	s.status = q.check(s, len(b)-wire.SQESize)
	switch {
	case s.status.OK():
		q.fetch(s, b[wire.SQESize:])
	case q.qid != 0 && q.ctrl.ended.Load():
		// An answer would be final. Without one the host sends the command again when
		// it is connected again.
		q.broken(errControllerEnded)
		q.release(s)
	default:
		q.finish(s)
	}
}

// errControllerEnded is why an I/O queue ends that has outlived its controller.
var errControllerEnded = errors.New("the controller has ended")

// check decides whether a command may be executed, and sets what data it moves.
func (q *queue) check(s *slot, inCapsule int) wire.Status {
	if s.ownsCID = q.markCID(s.sqe.CID); !s.ownsCID {
		return wire.StatusCommandIDConflict | wire.StatusDNR
	}
	if s.sqe.Flags&wire.FlagsFUSE != 0 || s.sqe.Flags&wire.FlagsPSDT != wire.FlagsPSDTSGL {
		return statusInvalidField
	}
	x, status := q.admit(s)
	if !status.OK() {
		return status
	}
	s.xfer = x
	if status := checkSGL(&s.sqe.SGL, x, inCapsule); !status.OK() {
		return status
	}
	s.invalidate = s.sqe.SGL.Keyed() && s.sqe.SGL.Subtype == wire.SGLInvalidate && s.sqe.SGL.Length > 0
	return wire.StatusSuccess
}

// admit asks who executes the command whether it may come now.
func (q *queue) admit(s *slot) (transfer, wire.Status) {
	fabrics := s.sqe.Opcode == wire.OpcodeFabrics
	switch {
	case fabrics && s.sqe.FabricsType() == wire.FabricsConnect:
		if q.state != queueNew {
			return transfer{}, statusSequenceError
		}
		return transfer{dir: toController, n: wire.ConnectDataSize}, wire.StatusSuccess
	case q.state != queueLive:
		return transfer{}, statusInvalidOpcode
	case q.qid == 0:
		return q.ctrl.admit(&s.sqe)
	case fabrics:
		return transfer{}, statusInvalidOpcode
	}
	return q.admitIO(s)
}

// checkSGL checks that the SGL names exactly the data that the command moves.
// inCapsule is how many bytes came behind the SQE.
func checkSGL(sgl *wire.SGL, x transfer, inCapsule int) wire.Status {
	switch sgl.Type {
	case wire.SGLKeyedDataBlock:
		if sgl.Subtype != wire.SGLAddress && sgl.Subtype != wire.SGLInvalidate {
			return statusInvalidField
		}
	case wire.SGLDataBlock:
		if sgl.Length == 0 && x.dir == noData {
			return wire.StatusSuccess
		}
		if sgl.Subtype != wire.SGLOffset {
			return statusInvalidField
		}
		if size := uint64(inCapsule); sgl.Addr > size || uint64(sgl.Length) > size-sgl.Addr {
			return wire.StatusSGLOffsetInvalid | wire.StatusDNR
		}
		if x.dir == toHost {
			return statusInvalidField
		}
	default:
		return wire.StatusSGLTypeInvalid | wire.StatusDNR
	}
	switch {
	case x.anySGL, sgl.Length == x.n, x.atLeast && sgl.Length > x.n:
		return wire.StatusSuccess
	}
	return statusLengthInvalid
}

// fetch brings the data of a command that takes some, and room for that of one
// that gives some.
func (q *queue) fetch(s *slot, inCapsule []byte) {
	switch {
	case s.xfer.dir == noData:
		q.execute(s)
	case s.sqe.SGL.InCapsule():
		off := s.sqe.SGL.Addr
		s.payload = inCapsule[off : off+uint64(s.xfer.n)]
		q.execute(s)
	default:
		q.waitBuffer(s)
	}
}
