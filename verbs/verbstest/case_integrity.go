package verbstest

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"

	"rbd/verbs"
)

var integrityCases = []Case{
	{"RandomTransfers", testRandomTransfers},
	{"ConcurrentPosts", testConcurrentPosts},
	{"ConcurrentConnections", testConcurrentConnections},
}

// cut divides n bytes at off in a region into up to count SGEs of random lengths.
func cut(rng *rand.Rand, r *Region, off, n, count int) (sges []verbs.SGE) {
	for i := rng.IntN(count); i > 0; i-- {
		part := rng.IntN(n + 1)
		sges = append(sges, r.SGE(off, part))
		off, n = off+part, n-part
	}
	return append(sges, r.SGE(off, n))
}

// Protects data, in the end: random operations, sizes and SGE lists, in batches,
// against a model of both memories that does the same by copying.
func testRandomTransfers(t *testing.T, e *Env) {
	const seed, size, rounds = 20261, 256 << 10, 60
	rng := rand.New(rand.NewPCG(seed, 0))
	p := e.Pair(nil)
	sges := min(4, e.Device.Attr().MaxSGERead)
	c, s := p.Client.Buffer(size, 1), p.Server.Buffer(size, 2)
	mc, ms := Filled(size, 1), Filled(size, 2)
	for round := range rounds {
		var ops []verbs.WCOpcode
		receives := 0
		for range 1 + rng.IntN(20) {
			n := rng.IntN(1 << (1 + rng.IntN(16)))
			if e.StaleEmptyReads {
				n = max(n, 1)
			}
			from, to := rng.IntN(size-n), rng.IntN(size-n)
			wr := verbs.SendWR{ID: uint64(len(ops)), Flags: verbs.SendSignaled, RemoteAddr: s.Addr(to), RKey: s.MR.RKey()}
			switch op := verbs.WCOpcode(rng.IntN(3)); op {
			case verbs.WCSend:
				p.Server.PostRecv(verbs.RecvWR{ID: uint64(receives), SGEs: cut(rng, s, to, n, sges)})
				receives++
				copy(ms[to:to+n], mc[from:])
				ops = append(ops, op)
			case verbs.WCRDMAWrite:
				wr.Opcode = verbs.WRRDMAWrite
				copy(ms[to:to+n], mc[from:])
				ops = append(ops, op)
			case verbs.WCRDMARead:
				wr.Opcode = verbs.WRRDMARead
				copy(mc[from:from+n], ms[to:])
				ops = append(ops, op)
			}
			wr.SGEs = cut(rng, c, from, n, sges)
			// What follows a READ may use its data, so it waits for it; what follows
			// anything else comes behind it anyway.
			wr.Flags |= verbs.SendFence
			p.Client.Post(wr)
		}
		for i, op := range ops {
			p.Client.Send.OK(uint64(i), op)
		}
		for i := range uint64(receives) {
			p.Server.Recv.OK(i, verbs.WCRecv)
		}
		p.Write(nil, 0, 0)
		if round%5 == 4 {
			t.Logf("seed %d, round %d", seed, round)
			WantBytes(t, "the client's memory", c.Mem, mc)
			WantBytes(t, "the server's memory", s.Mem, ms)
		}
	}
}

// Protects programs whose goroutines share a QP: the lists of eight of them
// interleave, but each list stays together, and each goroutine's stay in order.
func testConcurrentPosts(t *testing.T, e *Env) {
	const posters, lists, each, size = 8, 100, 4, 16
	const window = posters * each * 2
	p := e.PairOf(func(o *SideOpts) { o.Cap.MaxSendWR, o.Cap.MaxRecvWR = window, window })
	to := p.Server.Region(window*size, AllAccess)
	recv := func(i int) verbs.RecvWR {
		i %= window
		return verbs.RecvWR{ID: uint64(i), SGEs: []verbs.SGE{to.SGE(i*size, size)}}
	}
	for i := range window {
		p.Server.PostRecv(recv(i))
	}
	var wg sync.WaitGroup
	grants := make(chan struct{}, 2*posters) // one list may be posted for each
	for range cap(grants) {
		grants <- struct{}{}
	}
	for poster := range posters {
		mem := p.Client.Region(lists*each*size, AllAccess)
		wg.Go(func() {
			for list := range lists {
				var wrs []verbs.SendWR
				for i := range each {
					seq := list*each + i
					binary.BigEndian.PutUint64(mem.Mem[seq*size:], uint64(poster))
					binary.BigEndian.PutUint64(mem.Mem[seq*size+8:], uint64(seq))
					wrs = append(wrs, verbs.SendWR{SGEs: []verbs.SGE{mem.SGE(seq*size, size)}})
				}
				wrs[each-1].Flags = verbs.SendSignaled
				<-grants
				if err := p.Client.QP.PostSend(wrs); err != nil {
					t.Errorf("poster %d: %v", poster, err)
				}
			}
		})
	}
	var next [posters]uint64
	for i := range posters * lists * each {
		p.Server.Recv.OK(uint64(i%window), verbs.WCRecv)
		slot := to.Mem[i%window*size:]
		poster, seq := binary.BigEndian.Uint64(slot), binary.BigEndian.Uint64(slot[8:])
		if poster >= posters || seq != next[poster] {
			t.Fatalf("message %d: %d of poster %d, want %v", i, seq, poster, next)
		}
		next[poster]++
		p.Server.PostRecv(recv(i))
		if i%each != each-1 {
			continue
		}
		if next[poster]%each != 0 {
			t.Fatalf("message %d: a list of poster %d was torn", i, poster)
		}
		if wc := p.Client.Send.Next(); wc.Status != verbs.WCSuccess {
			t.Fatalf("completion %+v", wc)
		}
		grants <- struct{}{}
	}
	e.Within("the posters end", wg.Wait)
}

// Protects connections from each other: data of many, at the same time, on one
// domain, comes to the right place.
func testConcurrentConnections(t *testing.T, e *Env) {
	const pairs, rounds, n = 6, 20, 60000
	pd := e.PD()
	var wg sync.WaitGroup
	for i := range uint64(pairs) {
		p := e.PairOf(func(o *SideOpts) { o.PD = pd })
		c, s := p.Client.Region(n, AllAccess), p.Server.Region(n, AllAccess)
		wg.Go(func() {
			for round := range uint64(rounds) {
				Fill(c.Mem, i<<32+round)
				err := p.Client.QP.PostSend([]verbs.SendWR{
					{Opcode: verbs.WRRDMAWrite, SGEs: c.All(), RemoteAddr: s.Addr(0), RKey: s.MR.RKey()},
					{Opcode: verbs.WRRDMARead, Flags: verbs.SendSignaled},
				})
				if err == nil {
					_, err = p.Client.Send.next()
				}
				if err != nil {
					t.Errorf("connection %d: %v", i, err)
					return
				}
				if string(s.Mem) != string(Filled(n, i<<32+round)) {
					t.Errorf("connection %d, round %d: wrong data", i, round)
					return
				}
			}
		})
	}
	e.Within("all connections end", wg.Wait)
}
