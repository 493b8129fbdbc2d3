package perf

import (
	"sync"

	"rbd/verbs"
)

// pingDepth is the send queue of whoever sends one message at a time. It is more
// than one because the completion may come after the answer, and only every
// pingSignal-th message has one.
const (
	pingDepth  = 128
	pingSignal = pingDepth / 2
	pingRecvs  = 4
	// pingInline is the largest message that latency tests send inline, where the
	// device can: perftest's value for SEND.
	pingInline = 236
)

// pinger sends the same request over and over.
type pinger struct {
	mu    sync.Mutex
	qp    verbs.QP
	wr    [1]verbs.SendWR
	count int
	room  int  // in the send queue
	due   bool // one is to be sent as soon as there is room
}

func (p *pinger) init(qp verbs.QP, wr verbs.SendWR) {
	p.qp, p.wr[0], p.room = qp, wr, pingDepth
	p.wr[0].ID = idPing
}

// Work request IDs of other things than the requests of a bandwidth test, which
// are numbered from 1.
const (
	idPing = 1<<64 - 1 - iota
	idRecv
	idFin
)

// inlineFor is how many bytes a latency test may send inline.
func inlineFor(attr verbs.DeviceAttr, size int) int {
	if size <= min(pingInline, attr.MaxInline) {
		return size
	}
	return 0
}

// send sends one, now or as soon as the queue has room for it.
func (p *pinger) send() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.room == 0 {
		p.due = true
		return nil
	}
	return p.post()
}

func (p *pinger) post() error {
	p.count++
	p.room--
	p.wr[0].Flags &^= verbs.SendSignaled
	if p.count%pingSignal == 0 {
		p.wr[0].Flags |= verbs.SendSignaled
	}
	return p.qp.PostSend(p.wr[:])
}

// completed is called for each completion of it.
func (p *pinger) completed() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.room += pingSignal
	if !p.due {
		return nil
	}
	p.due = false
	return p.post()
}

// pingWR is the request that a latency test sends: the first size bytes of the
// memory, by SEND, or by RDMA WRITE to the peer's memory.
func pingWR(e *endpoint, op Op, size, inline int, rkey uint32, addr uint64) verbs.SendWR {
	wr := verbs.SendWR{Opcode: verbs.WRSend, SGEs: []verbs.SGE{e.sge(0, size)}}
	if op == WriteLat {
		wr.Opcode, wr.RKey, wr.RemoteAddr = verbs.WRRDMAWrite, rkey, addr
	}
	if inline > 0 {
		wr.Flags |= verbs.SendInline
	}
	return wr
}
