package ibv

import "sync/atomic"

// workQueue is the account of a send or receive queue: which requests are
// outstanding, oldest first, each with its caller's ID. Requests are numbered; the
// device knows them by their number.
//
// tail and given are changed with the QP's mutex held, head by who polls the CQ.
// An entry is written before tail covers it and read after, so that the ring needs
// no lock.
type workQueue struct {
	ring []uint64
	max  uint32
	// head is the oldest request without completion, tail the next to be posted.
	// Those from given on were never handed to the device.
	head, tail atomic.Uint32
	given      uint32
	// dead: what still comes from the device is dropped.
	dead atomic.Bool
}

func newWorkQueue(most int) workQueue {
	size := 1
	for size < most {
		size *= 2
	}
	return workQueue{ring: make([]uint64, size), max: uint32(most)}
}

// room is how many requests fit.
func (w *workQueue) room() int { return int(w.max - (w.tail.Load() - w.head.Load())) }

// put writes an entry behind the tail, at the distance i.
func (w *workQueue) put(i int, id uint64) uint32 {
	n := w.tail.Load() + uint32(i)
	w.ring[n&uint32(len(w.ring)-1)] = id
	return n
}

func (w *workQueue) at(n uint32) uint64 { return w.ring[n&uint32(len(w.ring)-1)] }

// idle says that the device has nothing in hand. The QP's mutex is held.
func (w *workQueue) idle() bool { return w.head.Load() == w.given }

// retire ends a request, and with it those before it, by the number that its
// completion has.
func (w *workQueue) retire(number uint32) (id uint64, ok bool) {
	head := w.head.Load()
	distance := (number - head) & numberMask
	if w.dead.Load() || distance >= w.tail.Load()-head {
		return 0, false
	}
	n := head + distance
	id = w.at(n)
	w.head.Store(n + 1)
	return id, true
}

// A work request is known to the device by a key of its QP, the queue, and the
// number in that queue.
const (
	numberBits = 31
	numberMask = 1<<numberBits - 1
	recvBit    = 1 << numberBits
)

func workID(key uint32, recv bool, number uint32) uint64 {
	id := uint64(key)<<32 | uint64(number&numberMask)
	if recv {
		id |= recvBit
	}
	return id
}
