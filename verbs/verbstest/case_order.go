package verbstest

import (
	"encoding/binary"
	"testing"
	"time"

	"rbd/verbs"
)

var orderCases = []Case{
	{"WriteThenSend", testWriteThenSend},
	{"WriteThenRead", testWriteThenRead},
	{"WritesOverlap", testWritesOverlap},
	{"CompletionOrder", testCompletionOrder},
	{"MessagesInOrder", testMessagesInOrder},
}

// Protects the answer of every storage target: the data of an RDMA WRITE is in
// place before a message that was sent after it completes its receive.
func testWriteThenSend(t *testing.T, e *Env) {
	const n = 70000
	p := e.Pair(nil)
	c, s := p.Client.Region(n, AllAccess), p.Server.Region(n, AllAccess)
	for i := range uint64(300) {
		binary.LittleEndian.PutUint64(c.Mem, i)
		binary.LittleEndian.PutUint64(c.Mem[n/2:], i)
		binary.LittleEndian.PutUint64(c.Mem[n-8:], i)
		p.Server.PostEmptyRecvs(i, 1)
		p.Client.Post(
			verbs.SendWR{Opcode: verbs.WRRDMAWrite, SGEs: c.All(), RemoteAddr: s.Addr(0), RKey: s.MR.RKey()},
			verbs.SendWR{ID: i, Flags: verbs.SendSignaled})
		p.Server.Recv.OK(i, verbs.WCRecv)
		for _, off := range []int{0, n / 2, n - 8} {
			if got := binary.LittleEndian.Uint64(s.Mem[off:]); got != i {
				t.Fatalf("round %d: at the receive's completion byte %d is of round %d", i, off, got)
			}
		}
		p.Client.Send.OK(i, verbs.WCSend)
	}
}

// Protects read-after-write on one QP (RFC 5040 section 5.5, IBA table 76).
func testWriteThenRead(t *testing.T, e *Env) {
	const n = 70000
	p := e.Pair(nil)
	c, s, back := p.Client.Region(n, AllAccess), p.Server.Region(n, AllAccess), p.Client.Region(n, AllAccess)
	for i := range uint64(50) {
		Fill(c.Mem, i)
		p.Client.Post(
			verbs.SendWR{Opcode: verbs.WRRDMAWrite, SGEs: c.All(), RemoteAddr: s.Addr(0), RKey: s.MR.RKey()},
			verbs.SendWR{ID: i, Opcode: verbs.WRRDMARead, Flags: verbs.SendSignaled, SGEs: back.All(), RemoteAddr: s.Addr(0), RKey: s.MR.RKey()})
		p.Client.Send.OK(i, verbs.WCRDMARead)
		WantBytes(t, "data read back", back.Mem, c.Mem)
	}
}

// Protects the last writer: WRITEs to one place land in the order of their posts.
func testWritesOverlap(t *testing.T, e *Env) {
	const n, count = 5000, 60
	p := e.Pair(nil)
	c, s := p.Client.Buffer(n*count, 1), p.Server.Region(n, AllAccess)
	for i := range count {
		p.Client.Post(verbs.SendWR{Opcode: verbs.WRRDMAWrite, SGEs: []verbs.SGE{c.SGE(n*i, n)}, RemoteAddr: s.Addr(0), RKey: s.MR.RKey()})
	}
	p.Write(nil, 0, 0)
	WantBytes(t, "the last of many RDMA WRITEs", s.Mem, c.Mem[n*(count-1):])
}

// Protects programs that count completions: those of the send queue come in the
// order of the posts, although a READ takes longer than a SEND behind it.
func testCompletionOrder(t *testing.T, e *Env) {
	const n = 512 << 10
	p := e.Pair(nil)
	from, to := p.Server.Buffer(n, 1), p.Client.Region(n, AllAccess)
	p.Server.PostEmptyRecvs(0, 10)
	var ops []verbs.WCOpcode
	for range 10 {
		for _, op := range []verbs.WROpcode{verbs.WRRDMARead, verbs.WRSend, verbs.WRRDMAWrite} {
			wr := verbs.SendWR{ID: uint64(len(ops)), Opcode: op, Flags: verbs.SendSignaled}
			switch op {
			case verbs.WRRDMARead:
				wr.SGEs, wr.RemoteAddr, wr.RKey = to.All(), from.Addr(0), from.MR.RKey()
				ops = append(ops, verbs.WCRDMARead)
			case verbs.WRSend:
				ops = append(ops, verbs.WCSend)
			case verbs.WRRDMAWrite:
				ops = append(ops, verbs.WCRDMAWrite)
			}
			p.Client.Post(wr)
		}
	}
	for i, op := range ops {
		p.Client.Send.OK(uint64(i), op)
	}
}

// Protects long-lived connections: 10,000 messages arrive in order, each in the
// receive that was next, while both queues wrap many times.
func testMessagesInOrder(t *testing.T, e *Env) {
	const n, window, size = 10000, 60, 16
	p := e.PairOf(func(o *SideOpts) { o.Mode = Polled })
	c, s := p.Client.Region(window*size, AllAccess), p.Server.Region(window*size, AllAccess)
	recv := func(i uint64) verbs.RecvWR {
		return verbs.RecvWR{ID: i, SGEs: []verbs.SGE{s.SGE(int(i%window)*size, size)}}
	}
	for i := range uint64(window) {
		p.Server.PostRecv(recv(i))
	}
	var posted, sent, received uint64
	for last := time.Now(); received < n || sent < n; {
		progress := false
		for posted < n && posted-min(sent, received) < window {
			slot := int(posted%window) * size
			binary.LittleEndian.PutUint64(c.Mem[slot:], posted)
			p.Client.Post(verbs.SendWR{ID: posted, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{c.SGE(slot, size)}})
			posted++
			progress = true
		}
		for wc, ok := p.Client.Send.TryNext(); ok; wc, ok = p.Client.Send.TryNext() {
			if wc.ID != sent || wc.Status != verbs.WCSuccess {
				t.Fatalf("send completion %d: request %d, %v", sent, wc.ID, wc.Status)
			}
			sent++
			progress = true
		}
		for wc, ok := p.Server.Recv.TryNext(); ok; wc, ok = p.Server.Recv.TryNext() {
			got := binary.LittleEndian.Uint64(s.Mem[int(received%window)*size:])
			if wc.ID != received || wc.Status != verbs.WCSuccess || got != received {
				t.Fatalf("receive completion %d: request %d, %v, message %d", received, wc.ID, wc.Status, got)
			}
			p.Server.PostRecv(recv(received + window))
			received++
			progress = true
		}
		if progress {
			last = time.Now()
			continue
		}
		if time.Since(last) > patience {
			t.Fatalf("no progress: %d posted, %d sent, %d received", posted, sent, received)
		}
		time.Sleep(20 * time.Microsecond)
	}
}
