package iwarp

import (
	"bytes"
	"fmt"
	"testing"

	"rbd/verbs"
)

// exchange moves data in every way and direction, and checks all of it.
func exchange(t *testing.T, a, b *side) {
	t.Helper()
	const n = 70_001
	half := len(a.mem) / 2
	if half < n {
		t.Fatal("regions are too small")
	}
	for range 2 {
		fill(a.mem, 1)
		fill(b.mem, 2)
		split := func(s *side, off int) []verbs.SGE {
			return []verbs.SGE{s.sge(off, 1)[0], s.sge(off+1, 0)[0], s.sge(off+1, 299)[0], s.sge(off+300, n-300)[0]}
		}
		must(t, b.qp.PostRecv([]verbs.RecvWR{{ID: 1, SGEs: split(b, 0)}, {ID: 2}, {ID: 3, SGEs: b.sge(n, 100)}}))
		must(t, a.qp.PostSend([]verbs.SendWR{
			{ID: 11, SGEs: split(a, 0), Flags: verbs.SendSignaled},
			{ID: 12, Flags: verbs.SendSignaled | verbs.SendSolicited},
			{ID: 13, SGEs: a.sge(5, 77), Flags: verbs.SendSignaled | verbs.SendInline}}))
		a.ok(t, 11, 12, 13)
		b.ok(t, 1, 2, 3)
		if !bytes.Equal(a.mem[:n], b.mem[:n]) || !bytes.Equal(a.mem[5:82], b.mem[n:n+77]) {
			t.Fatal("message data differs")
		}
		must(t, b.qp.PostRecv([]verbs.RecvWR{{ID: 5}}))
		must(t, a.qp.PostSend([]verbs.SendWR{
			{ID: 21, Opcode: verbs.WRRDMARead, SGEs: split(a, half), RemoteAddr: b.mr.Addr() + uint64(half), RKey: b.mr.RKey(), Flags: verbs.SendSignaled},
			{ID: 22, Opcode: verbs.WRRDMARead, Flags: verbs.SendSignaled, RKey: 77},
			{ID: 23, Opcode: verbs.WRRDMAWrite, SGEs: split(a, 1), RemoteAddr: b.mr.Addr() + 3, RKey: b.mr.RKey(), Flags: verbs.SendSignaled},
			{ID: 24, Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, RKey: 78},
			{ID: 25, Flags: verbs.SendSignaled | verbs.SendFence}}))
		a.ok(t, 21, 22, 23, 24, 25)
		b.ok(t, 5)
		if !bytes.Equal(a.mem[half:half+n], b.mem[half:half+n]) || !bytes.Equal(a.mem[1:1+n], b.mem[3:3+n]) {
			t.Fatal("one-sided data differs")
		}
		a, b = b, a
	}
}

// Protects the engine from where the socket cuts the stream: data arrives whole
// in pieces of any size, through sockets that take little, with FPDUs of any
// segment size, with and without CRC.
func TestAnyPieces(t *testing.T) {
	for _, crc := range []bool{false, true} {
		for _, mss := range []int{512, 1448, 1461, 65483} {
			for _, tt := range []struct{ limit, chunk int }{{1 << 20, 1 << 20}, {200, 1 << 20}, {40_000, 1448}, {4096, 61}} {
				t.Run(fmt.Sprintf("crc=%t/mss=%d/limit=%d/chunk=%d", crc, mss, tt.limit, tt.chunk), func(t *testing.T) {
					a, b := memPair(t, tt.limit, tt.chunk, link{crc: crc, mss: mss, ird: 4, ord: 4}, 256<<10)
					exchange(t, a, b)
				})
			}
		}
	}
}

// Protects the same over TCP.
func TestOverTCP(t *testing.T) {
	for _, params := range []string{"", "?crc=on"} {
		a, b := tcpSides(t, params, 256<<10, nil, nil)
		exchange(t, a, b)
	}
}
