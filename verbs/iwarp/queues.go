package iwarp

import (
	"math/bits"

	"rbd/verbs"
	"rbd/verbs/iwarp/internal/frame"
)

// The queues of a queue pair are rings whose counters run on without bound; a
// counter modulo the ring's size, a power of two, is the slot. All of them are
// guarded by qp.mu, but an element is read and written without it by the
// goroutine whose turn it is: the transmitter or the receiver.

// ringSize is the size of a ring for n elements.
func ringSize(n int) uint32 {
	if n <= 1 {
		return 1
	}
	return 1 << bits.Len32(uint32(n-1))
}

// sendWQE is a posted send work request.
type sendWQE struct {
	wr     verbs.SendWR // SGEs is the element's own array
	data   []byte       // the payload of an inline request, else empty
	length uint64
	msn    uint32         // of a Send or Read Request that has been started
	done   bool           // executed, waits for the earlier ones
	status verbs.WCStatus // why it failed, WCSuccess if it did not
	vendor uint32
}

func (w *sendWQE) inline() bool { return w.wr.Flags&verbs.SendInline != 0 }

// sendQueue: head is the oldest request not completed, next the one that is
// transmitted next or now, tail the slot for the next post.
type sendQueue struct {
	ring             []sendWQE
	cap              uint32
	head, next, tail uint32
}

func newSendQueue(n, sges, inline int) sendQueue {
	q := sendQueue{ring: make([]sendWQE, ringSize(n)), cap: uint32(n)}
	flat := make([]verbs.SGE, len(q.ring)*sges)
	data := make([]byte, len(q.ring)*inline)
	for i := range q.ring {
		q.ring[i].wr.SGEs = flat[i*sges : i*sges : (i+1)*sges]
		q.ring[i].data = data[i*inline : i*inline : (i+1)*inline]
	}
	return q
}

func (q *sendQueue) at(i uint32) *sendWQE { return &q.ring[i&uint32(len(q.ring)-1)] }
func (q *sendQueue) full() bool           { return q.tail-q.head >= q.cap }

// recvWQE is a posted receive.
type recvWQE struct {
	id     uint64
	sges   []verbs.SGE
	length uint64
	status verbs.WCStatus
}

// recvQueue: head is the oldest receive not completed.
type recvQueue struct {
	ring       []recvWQE
	cap        uint32
	head, tail uint32
}

func newRecvQueue(n, sges int) recvQueue {
	q := recvQueue{ring: make([]recvWQE, ringSize(n)), cap: uint32(n)}
	flat := make([]verbs.SGE, len(q.ring)*sges)
	for i := range q.ring {
		q.ring[i].sges = flat[i*sges : i*sges : (i+1)*sges]
	}
	return q
}

func (q *recvQueue) at(i uint32) *recvWQE { return &q.ring[i&uint32(len(q.ring)-1)] }
func (q *recvQueue) full() bool           { return q.tail-q.head >= q.cap }

// outRead is an RDMA READ of ours that waits for its response. The STag on the
// wire is made up, and offsets begin at 0: the sink's real place is in the work
// request, so that the peer never gets rights to it.
type outRead struct {
	sq     uint32 // the request's counter in the send queue
	stag   uint32
	length uint32
	placed uint32
}

// outReads is the outstanding read queue (ORQ), bounded by the peer's IRD.
type outReads struct {
	ring       []outRead
	cap        uint32
	head, tail uint32
}

func (q *outReads) at(i uint32) *outRead { return &q.ring[i&uint32(len(q.ring)-1)] }
func (q *outReads) count() uint32        { return q.tail - q.head }
func (q *outReads) full() bool           { return q.count() >= q.cap }

// inRead is an RDMA READ of the peer that waits for its turn to be answered.
type inRead struct {
	sinkSTag uint32
	sinkTO   uint64
	length   uint32
	srcSTag  uint32
	srcTO    uint64
	header   [frame.ReadRequestSize]byte // for the Terminate, should the source have gone
}

// inReads is the inbound read queue (IRQ), bounded by our IRD.
type inReads struct {
	ring       []inRead
	head, tail uint32
}

func (q *inReads) at(i uint32) *inRead { return &q.ring[i&uint32(len(q.ring)-1)] }
func (q *inReads) full() bool          { return q.tail-q.head >= uint32(len(q.ring)) }

// sgeCursor walks through a scatter/gather list.
type sgeCursor struct {
	sges []verbs.SGE
	i    int
	off  uint32
}

// next returns up to n bytes of the current element, and moves on; 0 bytes at
// the end of the list.
func (c *sgeCursor) next(n int) (sge verbs.SGE) {
	for c.i < len(c.sges) && c.off == c.sges[c.i].Length {
		c.i, c.off = c.i+1, 0
	}
	if c.i == len(c.sges) {
		return sge
	}
	s := c.sges[c.i]
	sge = verbs.SGE{Addr: s.Addr + uint64(c.off), Length: uint32(min(uint64(n), uint64(s.Length-c.off))), LKey: s.LKey}
	c.off += sge.Length
	return sge
}
