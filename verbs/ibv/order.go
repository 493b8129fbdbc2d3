package ibv

import "rbd/verbs"

// sendOrder puts the completions of a send queue into the order of the posts. siw
// completes a SEND or an RDMA WRITE as soon as TCP has it, and an RDMA READ before
// it when its data comes. READs are always signaled there, so that each is known to
// be done.
type sendOrder struct {
	entries []sentWR // by the number of the request
	// done is behind the last request that has completed, failed whether one has with
	// an error.
	done   uint32
	failed bool
}

// sentWR is a request that the device has.
type sentWR struct {
	read bool
	// silent: its success is not told to the caller, who did not ask for it.
	silent    bool
	completed bool
	record    wcRecord
}

func newSendOrder(size int) *sendOrder { return &sendOrder{entries: make([]sentWR, size)} }

func (o *sendOrder) at(n uint32) *sentWR { return &o.entries[n&uint32(len(o.entries)-1)] }

// put notes a request before it is posted, and returns its flags for the device.
func (o *sendOrder) put(n uint32, read bool, flags verbs.SendFlags, sigAll bool) verbs.SendFlags {
	*o.at(n) = sentWR{read: read, silent: read && !sigAll && flags&verbs.SendSignaled == 0}
	if read {
		flags |= verbs.SendSignaled
	}
	return flags
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
