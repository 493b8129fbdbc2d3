package initiator

import (
	"errors"

	"rbd/verbs"
	"rbd/wire"
)

// A CID is the index of a slot in the low tagBits bits and the slot's generation
// above, so that an answer to an earlier command of the slot is told apart. This
// is how Linux makes its CIDs too (nvme.h, nvme_cid).
const (
	tagBits = 12
	maxTags = 1 << tagBits
	genMask = 1<<(16-tagBits) - 1
)

// slot is the place of one command that is out. It is free again when both the
// SEND of its capsule has completed and the answer has come, in whichever order:
// the provider may read the capsule until then.
type slot struct {
	req  *Request // nil once the request has gone on
	cqe  wire.CQE // an answer that came before the SEND completed
	sges [2]verbs.SGE
	tick uint32 // when the command was built
	gen  uint8
	busy bool
	// sent and answered are the two halves of the end.
	sent, answered bool
	// gathers: the SEND reads the request's buffer, so the request too waits for it.
	gathers bool
}

// exchange is the logic of a queue without its I/O: which request waits, which
// has a slot, which is over. Its caller holds the queue's lock.
type exchange struct {
	slots []slot
	free  []uint16 // a stack: a small working set stays in the cache

	line // waiting for a slot

	// interrupted were answered with an error and are to be sent again; paused are
	// those whose pause before that has begun.
	interrupted, paused line

	// noZeroes has the namespaces for which Write Zeroes was refused.
	noZeroes map[uint32]bool

	// lagging counts slots that were answered while the SEND has not completed,
	// held those among them whose request waits for it.
	lagging, held int
	traffic       traffic
	// finished collects the requests that are over until take.
	finished []*Request
}

func newExchange(slots int) *exchange {
	x := &exchange{
		slots:    make([]slot, slots),
		free:     make([]uint16, 0, slots),
		finished: make([]*Request, 0, slots),
		noZeroes: make(map[uint32]bool),
	}
	x.retreat()
	return x
}

// next gives the first request that waits a slot. It returns -1 when there is no
// request or no slot.
func (x *exchange) next() (int, *Request) {
	if x.head == nil || len(x.free) == 0 {
		return -1, nil
	}
	r := x.dequeue()
	i := int(x.free[len(x.free)-1])
	x.free = x.free[:len(x.free)-1]
	s := &x.slots[i]
	s.req, s.busy, s.sent, s.answered, s.gathers = r, true, false, false, false
	x.traffic.sent++
	return i, r
}

// cid is the command identifier for the command that is in slot i now.
func (x *exchange) cid(i int) uint16 { return uint16(x.slots[i].gen)<<tagBits | uint16(i) }

// find is the slot of a CID whose command is out, or nil.
func (x *exchange) find(cid uint16) (int, *slot) {
	i := int(cid & (maxTags - 1))
	if i >= len(x.slots) {
		return 0, nil
	}
	if s := &x.slots[i]; s.busy && uint16(s.gen) == cid>>tagBits {
		return i, s
	}
	return 0, nil
}

// answer takes a response capsule. An error means that the peer answered
// something that was not asked, and that the connection can't be trusted.
func (x *exchange) answer(c *wire.CQE) error {
	i, s := x.find(c.CID)
	if s == nil || s.answered {
		return &ProtocolError{What: "answer to a command that is not out", CID: c.CID}
	}
	if r := s.req; r != nil && r.cmd == nil && errors.Is(c.Status, wire.StatusCommandSequenceError) {
		// To I/O this says that the controller is not enabled, which it was: it is about
		// to end the connection.
		return &StatusError{Op: r.Op, NSID: r.NSID, Offset: r.Offset + r.done, Length: r.chunk, Status: c.Status}
	}
	s.answered = true
	x.traffic.answered++
	if s.sent {
		x.settle(s.req, c)
		x.release(i)
		return nil
	}
	x.lagging++
	if s.gathers {
		x.held++
		s.cqe = *c
		return nil
	}
	r := s.req
	s.req = nil
	x.settle(r, c)
	return nil
}

// sent takes the completion of the SEND of a capsule.
func (x *exchange) sent(cid uint16) error {
	i, s := x.find(cid)
	if s == nil || s.sent {
		return &ProtocolError{What: "completion of a send that is not out", CID: cid}
	}
	s.sent = true
	if !s.answered {
		return nil
	}
	x.lagging--
	if s.req != nil {
		x.held--
		x.settle(s.req, &s.cqe)
	}
	x.release(i)
	return nil
}

func (x *exchange) release(i int) {
	s := &x.slots[i]
	s.req, s.busy = nil, false
	s.gen = (s.gen + 1) & genMask
	x.free = append(x.free, uint16(i))
}

// settle ends a request with its answer, or queues it again for its next part or for
// the flush that makes it durable.
func (x *exchange) settle(r *Request, c *wire.CQE) {
	if r.cmd != nil {
		r.cmd.cqe = *c
		x.finish(r, nil)
		return
	}
	if x.refusesZeroes(r, c.Status) {
		x.noZeroes[r.NSID], r.zeroesAsData = true, true
		x.enqueue(r)
		return
	}
	if !c.Status.OK() && r.repeats(c.Status) {
		r.repeated++
		x.interrupted.enqueue(r)
		return
	}
	r.repeated = 0
	if !c.Status.OK() {
		x.finish(r, &StatusError{
			Op: r.command(), NSID: r.NSID, Offset: r.Offset + r.done, Length: r.chunk, Status: c.Status,
		})
		return
	}
	r.done += r.chunk
	switch {
	case r.Op != OpFlush && r.done < r.Length:
		x.enqueue(r)
	case r.durableTrim() && !r.flushing:
		r.flushing, r.chunk = true, 0
		x.enqueue(r)
	default:
		x.finish(r, nil)
	}
}

// refusesZeroes says that a controller which announced Write Zeroes does not have
// it for this namespace. nvmet answers so when its file or device can't zero a
// range, and Linux as host then writes zeros too (blkdev_issue_zeroout).
func (x *exchange) refusesZeroes(r *Request, s wire.Status) bool {
	return r.Op == OpWriteZeroes && !r.zeroesAsData && errors.Is(s, wire.StatusInvalidOpcode) && r.info.BlockSize <= zeroesSize
}

func (x *exchange) finish(r *Request, err error) {
	r.Err = err
	x.finished = append(x.finished, r)
}

// take moves the finished requests to the end of dst.
func (x *exchange) take(dst []*Request) []*Request {
	dst = append(dst, x.finished...)
	clear(x.finished)
	x.finished = x.finished[:0]
	return dst
}

// takeOf moves the finished requests that were submitted to home to the end of dst.
func (x *exchange) takeOf(home *Queue, dst []*Request) []*Request {
	left := x.finished[:0]
	for _, r := range x.finished {
		if r.home == home {
			dst = append(dst, r)
		} else {
			left = append(left, r)
		}
	}
	clear(x.finished[len(left):])
	x.finished = left
	return dst
}

// stuck says that something waits for a SEND to complete, which nobody will be
// told of by an answer.
func (x *exchange) stuck() bool {
	return x.held > 0 || x.lagging > 0 && x.head != nil && len(x.free) == 0
}

// idle says that no request is out or waiting.
func (x *exchange) idle() bool {
	return x.head == nil && x.interrupted.head == nil && x.paused.head == nil && len(x.free)+x.lagging-x.held == len(x.slots)
}

// overdue is a request that has been out for more than limit ticks, or nil.
func (x *exchange) overdue(now, limit uint32) *Request {
	for i := range x.slots {
		s := &x.slots[i]
		if s.req == nil || s.req.cmd != nil && s.req.cmd.patient {
			continue
		}
		if now-s.tick > limit {
			return s.req
		}
	}
	return nil
}

// withdraw takes a request out that is not out, and says whether there was one.
func (x *exchange) withdraw(r *Request) bool {
	return x.line.withdraw(r) || x.interrupted.withdraw(r) || x.paused.withdraw(r)
}

// retreat takes all requests out of a connection that has ended: those that are
// out, and those that wait. What it leaves is idle.
func (x *exchange) retreat() []*Request {
	var all []*Request
	x.lagging, x.held, x.free = 0, 0, x.free[:0]
	for i := len(x.slots) - 1; i >= 0; i-- {
		s := &x.slots[i]
		if s.req != nil {
			all = append(all, s.req)
		}
		*s = slot{gen: s.gen}
		x.free = append(x.free, uint16(i))
	}
	for _, l := range []*line{&x.interrupted, &x.paused, &x.line} {
		all = append(all, l.takeAll()...)
	}
	return all
}
