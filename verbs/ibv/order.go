package ibv

import "rbd/verbs"

// sendOrder puts the completions of a send queue into the order of the posts. siw
// completes a SEND or an RDMA WRITE as soon as TCP has it, and an RDMA READ before
// it when its data comes.
//
// READs are always signaled there, so that each is known to be done, and so is what
// carries more than a few bytes: of an unsignaled request siw hands the pages
// themselves to TCP, which may send them, or send them again, long after the
// completion of a later request has said that the memory is free.
type sendOrder struct {
	entries []sentWR // by the number of the request
	// done is behind the last request that has completed, failed whether one has with
	// an error.
	done   uint32
	failed bool
}

// sentWR is a request that the device has.
type sentWR struct {
	read bool // it is done when it has completed, not when a later one has
	// silent: its success is not told to the caller, who did not ask for it.
	silent    bool
	completed bool
	record    wcRecord
}

func newSendOrder(size int) *sendOrder { return &sendOrder{entries: make([]sentWR, size)} }

func (o *sendOrder) at(n uint32) *sentWR { return &o.entries[n&uint32(len(o.entries)-1)] }

// copied is how many bytes an unsignaled request may have so that siw copies them:
// well below a page, from which on it does not.
const copied = 1024

// put notes a request before it is posted, and returns its flags for the device. A
// READ is not fenced: siw refuses that with EINVAL, and then works on nothing that is
// behind it. There is no need to, since peers work on READs in their order (RFC 5040,
// 5.5), and their data comes in it.
func (o *sendOrder) put(n uint32, wr *verbs.SendWR, sigAll bool) verbs.SendFlags {
	flags, read := wr.Flags, wr.Opcode == verbs.WRRDMARead
	if read {
		flags &^= verbs.SendFence
	}
	asked := sigAll || flags&verbs.SendSignaled != 0
	if asked || !read && dataBytes(wr.SGEs) <= copied {
		*o.at(n) = sentWR{read: read}
		return flags
	}
	*o.at(n) = sentWR{read: read, silent: true}
	return flags | verbs.SendSignaled
}

func dataBytes(sges []verbs.SGE) (n uint64) {
	for i := range sges {
		n += uint64(sges[i].Length)
	}
	return n
}

// completeInOrder notes a completion, and adds those that are next in order.
func (q *qp) completeInOrder(r *wcRecord, batch []verbs.WC) []verbs.WC {
	o, w := q.order, &q.sq
	head, tail := w.head.Load(), w.tail.Load()
	distance := (uint32(r.id) - head) & numberMask
	if w.dead.Load() || distance >= tail-head {
		return batch
	}
	n := head + distance
	e := o.at(n)
	e.completed, e.record = true, *r
	if int32(n+1-o.done) > 0 {
		o.done = n + 1
	}
	// A request without completion is done when a later one is, but for a READ.
	for ; head != o.done; head++ {
		e := o.at(head)
		if !e.completed {
			if e.read {
				break
			}
			continue
		}
		if o.failed && e.record.status == uint8(verbs.WCSuccess) {
			e.record.status = uint8(verbs.WCWRFlushErr) // nothing succeeds behind a failure
		}
		o.failed = o.failed || e.record.status != uint8(verbs.WCSuccess)
		if !e.silent || o.failed {
			batch = q.add(w.at(head), false, &e.record, batch)
		}
	}
	w.head.Store(head)
	return batch
}
