package target

import (
	"sync/atomic"
	"time"

	"rbd/verbs"
)

// A fence looks again after fenceFirst, and then less and less often.
const (
	fenceFirst = 2 * time.Millisecond
	fenceLast  = 100 * time.Millisecond
)

// fenceOthers lets the host's Connects wait for the commands that its other
// controllers have in hand, or that are still on their way to them. One of them may be
// what is left of a connection that only the host knows to be lost, and its writes must
// not land after those that the host is about to send. A controller that is well
// answers them soon; one whose host can't be reached is ended by its keep alive timer,
// or because it leaves RDMA work undone.
//
// The look is taken when the settle time is over: what was on its way has come.
func (s *subsystem) fenceOthers(c *controller) {
	s.order.lose(c.host)
	time.AfterFunc(settleTime, func() {
		var queues []*binding
		s.mu.Lock()
		for _, other := range s.controllers {
			if other == c || other.host != c.host {
				continue
			}
			for _, b := range other.queues {
				if !b.lost && b.qid != 0 {
					queues = append(queues, b)
				}
			}
		}
		s.mu.Unlock()
		var left atomic.Int32
		left.Store(int32(len(queues)) + 1)
		done := func() {
			if left.Add(-1) == 0 {
				s.order.drained(c.host)
			}
		}
		for _, b := range queues {
			b.fence(done)
		}
		done()
	})
}

// fence calls done, on the queue's owner, when the commands that the host has sent by
// now have left the backends.
func (q *queue) fence(done func()) {
	q.call(func() {
		q.probe(func() { q.fenced(q.inHand(), fenceFirst, done) })
	})
}

// probes are waits for what the host has sent. An RDMA READ of no bytes is answered
// behind all that the host has sent before, however late the network delivers it: a
// TCP that retransmits can keep a write for longer than the host keeps its connection.
type probes struct {
	// out wait for the one that is outstanding, next for the one after that: its answer
	// may be on its way already, before what they wait for.
	out, next []func()
}

// probe calls f, as the owner, when all is here that the host has sent by now, or when
// nothing more will come.
func (q *queue) probe(f func()) {
	switch {
	case q.state == queueDead:
		f()
	case len(q.probes.out) > 0:
		q.probes.next = append(q.probes.next, f)
	default:
		q.probes.out = append(q.probes.out, f)
		q.moving++ // a host that leaves it undone is cut
		q.sendWRs = append(q.sendWRs, verbs.SendWR{ID: workID(workProbe, 0), Opcode: verbs.WRRDMARead, Flags: verbs.SendSignaled})
	}
}

// probed is the end of a probe.
func (q *queue) probed() {
	q.moving--
	done, next := q.probes.out, q.probes.next
	q.probes = probes{}
	for _, f := range done {
		f()
	}
	for _, f := range next {
		q.probe(f)
	}
}

// endProbes ends all of a queue that has died.
func (q *queue) endProbes() {
	done := append(q.probes.out, q.probes.next...)
	q.probes = probes{}
	for _, f := range done {
		f()
	}
}

// fenced waits for commands: receive buffers with their command identifiers.
func (q *queue) fenced(commands map[uint32]uint16, pause time.Duration, done func()) {
	now := q.inHand()
	for recv, cid := range commands {
		if again, ok := now[recv]; !ok || again != cid {
			delete(commands, recv)
		}
	}
	if len(commands) == 0 {
		done()
		return
	}
	time.AfterFunc(pause, func() {
		q.call(func() { q.fenced(commands, min(2*pause, fenceLast), done) })
	})
}

// inHand are the commands that may still reach a backend, by their receive buffers,
// with their identifiers.
func (q *queue) inHand() map[uint32]uint16 {
	commands := make(map[uint32]uint16)
	for i := range q.slots {
		switch s := &q.slots[i]; s.state {
		case slotWaitBuffer, slotFetching, slotExecuting:
			commands[s.recv] = s.sqe.CID
		}
	}
	for _, c := range q.early {
		if b := q.mem.capsule(c.recv)[:c.n]; len(b) >= 4 {
			commands[c.recv] = uint16(b[2]) | uint16(b[3])<<8 // the SQE's CID
		}
	}
	return commands
}
