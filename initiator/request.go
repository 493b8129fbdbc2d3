package initiator

import (
	"fmt"
	"sync/atomic"
	"time"

	"rbd/verbs/bufpool"
	"rbd/wire"
)

// Op is the kind of a [Request].
type Op uint8

// The operations of a disk.
const (
	OpRead Op = iota
	OpWrite
	// OpFlush makes completed writes durable (NVM Flush).
	OpFlush
	// OpTrim says that blocks are not needed any more (Dataset Management, deallocate).
	OpTrim
	// OpWriteZeroes makes blocks read as zeros.
	OpWriteZeroes
	// opCommand is a command with an SQE of its own, for this package's use.
	opCommand
)

func (o Op) String() string {
	switch o {
	case OpRead:
		return "read"
	case OpWrite:
		return "write"
	case OpFlush:
		return "flush"
	case OpTrim:
		return "trim"
	case OpWriteZeroes:
		return "write zeroes"
	case opCommand:
		return "command"
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// modifies says that the operation changes what is read later.
func (o Op) modifies() bool { return o == OpWrite || o == OpTrim || o == OpWriteZeroes }

// A Request is one operation on a namespace, for owners that have many at once.
// It belongs to the queue from Submit until Owner.Complete gets it back; then it
// may be used again, at once. The zero private fields need no preparation.
type Request struct {
	Op Op
	// FUA: a write, write zeroes or trim completes when it is on stable storage.
	FUA bool
	// NoUnmap: write zeroes keeps the blocks allocated.
	NoUnmap bool
	// NSID is the namespace.
	NSID uint32
	// Offset and Length are the range in bytes, multiples of the block size; both
	// are ignored for OpFlush. A range longer than the controller takes in one
	// command is sent in parts, one after the other.
	Offset, Length uint64
	// Buf holds the data of reads and writes, at least Length bytes. It comes from
	// Controller.Buffers.
	Buf bufpool.Buf
	// Err is the outcome, set when Owner.Complete is called: nil, a *RangeError,
	// a *StatusError, or an error that wraps ErrConnectionLost, ErrClosed,
	// ErrReadOnly, ErrNotSupported or ErrNoNamespace. After an error, any part of
	// the range may have been worked on.
	Err error
	// Owner gets the request back. Its dynamic type must be comparable.
	Owner Owner
	// Tag is the owner's.
	Tag uint64
	// Abandoned, if there is one, becomes true when the one that the owner works for
	// has gone: the request may be finished on the connection that it is on, but does
	// not wait for another. Who sets it calls Controller.DropAbandoned then.
	Abandoned *atomic.Bool

	home  *Queue         // that it was submitted to
	next  *Request       // in the line of those that wait
	seq   uint64         // its number in the queue's order of submission
	lost  time.Duration  // when its connection was first lost, on the controller's clock; 0: never
	info  *NamespaceInfo // as it was at Submit
	done  uint64         // bytes that have been answered
	chunk uint64         // bytes of the command that is out
	// repeated is how many times the command that is out was sent again because of the
	// controller's answer.
	repeated uint8
	// flushing: a trim with FUA has been answered, and what is left is the flush.
	flushing bool
	// zeroesAsData: the controller has refused Write Zeroes for the namespace, and
	// gets zeros as data.
	zeroesAsData bool
	cmd          *command // for opCommand
	call         *call    // for requests of the blocking API
}

// command is what the next command of the request does.
func (r *Request) command() Op {
	if r.flushing {
		return OpFlush
	}
	return r.Op
}

// durableTrim says that the request is a trim with FUA. Dataset Management has no FUA,
// so a flush follows.
func (r *Request) durableTrim() bool { return r.Op == OpTrim && r.FUA }

// again prepares the request for another connection. The parts that were answered are
// done, save for those that only the flush would have made durable: they may be lost
// with the target.
func (r *Request) again() {
	if r.durableTrim() {
		r.flushing, r.done = false, 0
	}
}

// unwanted says that nobody waits for the request any more: it must not be sent
// again, for what its caller does next must not be undone by it.
func (r *Request) unwanted() bool {
	return r.call != nil && r.call.quit.Load() || r.Abandoned != nil && r.Abandoned.Load()
}

// enter notes that q has the request now. Its mu is held until the request is in a
// line of q.
func (r *Request) enter(q *Queue) {
	if r.call != nil {
		r.call.at.Store(q)
	}
}

// Owner is told of the requests that are over.
type Owner interface {
	// Complete gets back requests that this owner submitted to one queue: all that
	// ended in one batch of completions. It runs on a goroutine of the provider or
	// of the controller, or within a Submit to the queue, and for one queue never
	// twice at a time, even if another queue does its work for it. It must not block.
	// It may submit. The slice is valid until it returns.
	Complete(batch []*Request)
}

// command is an admin or Fabrics command with its answer. Its data, if it has
// any, is Request.Buf.
type command struct {
	sqe wire.SQE // without CID and SGL
	// inCapsule: data goes with the command if the queue allows it.
	inCapsule bool
	// patient: the answer comes when there is something to tell, so that no
	// time limit holds (Asynchronous Event Request).
	patient bool
	cqe     wire.CQE
}
