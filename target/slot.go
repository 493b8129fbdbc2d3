package target

import (
	"fmt"

	"rbd/verbs"
	"rbd/verbs/bufpool"
	"rbd/wire"
)

// slotState is where a command is on its way.
type slotState uint8

const (
	slotFree slotState = iota
	// slotReceived: the capsule is being looked at.
	slotReceived
	// slotWaitBuffer: in line for a data buffer.
	slotWaitBuffer
	// slotFetching: an RDMA READ brings the data.
	slotFetching
	// slotExecuting: on a backend, inline or on a worker.
	slotExecuting
	// slotParked: a controller keeps the request.
	slotParked
	// slotResponding: the answer is posted, its completion is awaited.
	slotResponding
	slotStates
)

func (s slotState) String() string {
	names := [slotStates]string{"free", "received", "waiting for a buffer", "fetching", "executing", "parked", "responding"}
	if s < slotStates {
		return names[s]
	}
	return fmt.Sprintf("slotState(%d)", uint8(s))
}

// follows tells which states may come after which. Every state but slotFree may be
// followed by slotFree when the queue is torn down.
var follows = [slotStates][slotStates]bool{
	slotFree:       {slotReceived: true},
	slotReceived:   {slotWaitBuffer: true, slotFetching: true, slotExecuting: true, slotParked: true, slotResponding: true, slotFree: true},
	slotWaitBuffer: {slotFetching: true, slotExecuting: true, slotParked: true, slotResponding: true, slotFree: true},
	slotFetching:   {slotExecuting: true, slotParked: true, slotResponding: true, slotFree: true},
	slotExecuting:  {slotResponding: true, slotFree: true},
	slotParked:     {slotResponding: true, slotFree: true},
	slotResponding: {slotFree: true},
}

// slot is one command from its capsule to the completion of its answer.
type slot struct {
	q     *queue
	index uint32
	state slotState
	// next chains slots in the queue's inbox, a namespace's workers, or the free
	// list: a slot is in one of them at a time.
	next *slot
	// posted: in the inbox; withheld: the queue has died, and the slot does not come
	// back any more. Under the queue's mutex.
	posted, withheld bool

	// recv is the receive buffer that holds the capsule until the answer.
	recv uint32
	sqe  wire.SQE
	// ownsCID: the command's identifier is marked as in use by this slot.
	ownsCID bool
	xfer    transfer
	// payload is the data: in the capsule, or in data.
	payload []byte
	data    bufpool.Buf
	waiter  bufpool.Waiter
	// invalidate: the answer ends the host's key.
	invalidate bool

	// ns, off and length are the range of an I/O command.
	ns     *namespace
	off    int64
	length int64

	status  wire.Status
	request request

	readSGE, writeSGE, sendSGE [1]verbs.SGE
}

// enter makes every transition of a slot's state.
func (s *slot) enter(next slotState) {
	if !follows[s.state][next] {
		panic(fmt.Sprintf("target: slot %d can't become %q when it is %q", s.index, next, s.state))
	}
	if s.state.moving() {
		s.q.moving--
	}
	if next.moving() {
		s.q.moving++
	}
	s.state = next
}

// moving: the peer has to do its part of RDMA work.
func (s slotState) moving() bool { return s == slotFetching || s == slotResponding }

// slotList is a line of slots.
type slotList struct{ head, tail *slot }

func (l *slotList) push(s *slot) {
	s.next = nil
	if l.tail != nil {
		l.tail.next = s
	} else {
		l.head = s
	}
	l.tail = s
}

func (l *slotList) pop() *slot {
	s := l.head
	if s != nil {
		if l.head = s.next; l.head == nil {
			l.tail = nil
		}
		s.next = nil
	}
	return s
}

// Work request identifiers carry the kind of work and the index of its slot or
// receive buffer.
type workKind uint8

const (
	workRecv workKind = iota
	workSend
	workRead
	workWrite
	workProbe
)

func (k workKind) String() string {
	names := [...]string{"receive", "send", "rdma read", "rdma write", "probe"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("workKind(%d)", uint8(k))
}

func workID(k workKind, index uint32) uint64 { return uint64(k)<<32 | uint64(index) }

func splitWorkID(id uint64) (workKind, uint32) { return workKind(id >> 32), uint32(id) }
