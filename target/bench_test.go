package target

import (
	"fmt"
	"testing"

	"rbd/verbs"
	"rbd/wire"
)

// BenchmarkRAM is the target with the provider below it and a host that only sends
// capsules, in one process: a bound for what an initiator can get.
func BenchmarkRAM(b *testing.B) {
	for _, c := range []struct {
		op     wire.IOOpcode
		blocks uint32
		depth  int
	}{{wire.IORead, 8, 1}, {wire.IOWrite, 8, 1}, {wire.IORead, 8, 32}, {wire.IOWrite, 8, 32}, {wire.IORead, 256, 8}, {wire.IOWrite, 256, 8}, {wire.IORead, 2048, 4}, {wire.IOWrite, 2048, 4}} {
		b.Run(fmt.Sprintf("%s-%dk-depth%d", c.op, c.blocks/2, c.depth), func(b *testing.B) {
			e := newEnv(b, withConfig(func(c *Config) { c.BufferBytes = 64 << 20 }))
			e.addRAM(8 << 20)
			_, cntlid := e.admin(testNQN)
			q := e.io(cntlid, 1, 64)
			b.SetBytes(int64(c.blocks) * 512)
			b.ReportAllocs()
			q.stream(b, c.op, c.blocks, c.depth)
		})
	}
}

// stream keeps depth commands outstanding until the benchmark is over. What
// completes together is answered with one post.
func (q *hostQueue) stream(b *testing.B, op wire.IOOpcode, blocks uint32, depth int) {
	sends, recvs := make([]verbs.SendWR, depth), make([]verbs.RecvWR, depth)
	for i := range depth {
		sqe := q.rangeCmd(op, 0, blocks)
		sqe.CID = uint16(i)
		sqe.Put(q.mem[i*64:])
		sends[i] = verbs.SendWR{Opcode: verbs.WRSend, SGEs: []verbs.SGE{{Addr: verbs.AddrOf(q.mem[i*64:]), Length: 64, LKey: q.mr.LKey()}}}
		recvs[i].SGEs = []verbs.SGE{{Length: wire.CQESize, LKey: q.mr.LKey()}}
	}
	post := make([]verbs.SendWR, 0, depth)
	repost := make([]verbs.RecvWR, 0, depth)
	wcs := make([]verbs.WC, 64)
	b.ResetTimer()
	for i := range min(depth, b.N) {
		post = append(post, sends[i])
	}
	posted, since := 0, 0
	for done := 0; done < b.N; {
		for i := range post { // a signaled one now and then frees the send queue
			post[i].Flags = 0
			if since++; since%16 == 0 {
				post[i].Flags = verbs.SendSignaled
			}
		}
		posted += len(post)
		if err := q.qp.PostSend(post); err != nil {
			b.Fatal(err)
		}
		post = post[:0]
		if err := q.cq.ReqNotify(); err != nil {
			b.Fatal(err)
		}
		n := q.cq.Poll(wcs)
		if n == 0 {
			if err := q.cq.Wait(b.Context()); err != nil {
				b.Fatal(err)
			}
			n = q.cq.Poll(wcs)
		}
		for _, wc := range wcs[:n] {
			if wc.Status != verbs.WCSuccess {
				<-q.id.Disconnected()
				b.Fatal(wc.Status, q.id.Err())
			}
			if wc.Opcode != verbs.WCRecv {
				continue
			}
			var cqe wire.CQE
			r := q.response(int(wc.ID & 0xFFFF))
			if err := cqe.Parse(r); err != nil || !cqe.Status.OK() {
				b.Fatal(err, cqe.Status)
			}
			rwr := &recvs[len(repost)]
			rwr.ID, rwr.SGEs[0].Addr = wc.ID, verbs.AddrOf(r)
			repost = append(repost, *rwr)
			if done++; posted+len(post) < b.N {
				post = append(post, sends[cqe.CID])
			}
		}
		if err := q.qp.PostRecv(repost); err != nil {
			b.Fatal(err)
		}
		repost = repost[:0]
	}
}
