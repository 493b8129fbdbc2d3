package iwarp

import (
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"

	"rbd/internal/sockio"
	"rbd/verbs"
	"rbd/verbs/iwarp/internal/frame"
)

// segmenter is a socket that lays what it is given into TCP segments as Linux
// does: they are full but for the last of a write with MSG_EOR that was taken
// whole. It takes at most limit bytes per write. After a short one the segment goes
// on, or, if it pushes, has been sent.
type segmenter struct {
	memStream
	mss, limit int
	pushes     bool
	stream     []byte
	cuts       []int        // where segments begin, besides every mss bytes after one
	short      map[int]bool // where short writes ended
	writes     int
	fresh      bool
}

func newSegmenter(mss, limit int) *segmenter {
	return &segmenter{memStream: newSink().memStream, mss: mss, limit: limit, short: map[int]bool{}, fresh: true}
}

func (s *segmenter) TryWritev(iov []unix.Iovec, eor bool) (int, error) {
	if s.limit == 0 {
		return 0, sockio.ErrWouldBlock
	}
	b := gather(iov)
	n := min(len(b), s.limit)
	if s.fresh {
		s.cuts = append(s.cuts, len(s.stream))
	}
	s.stream = append(s.stream, b[:n]...)
	whole := n == len(b)
	if !whole {
		s.short[len(s.stream)] = true
	}
	s.fresh = whole && eor || !whole && s.pushes
	s.writes++
	return n, nil
}

// boundaries says for each byte of the stream whether a segment begins there.
func (s *segmenter) boundaries() map[int]bool {
	at := map[int]bool{}
	for i, from := range s.cuts {
		to := len(s.stream)
		if i+1 < len(s.cuts) {
			to = s.cuts[i+1]
		}
		for ; from < to; from += s.mss {
			at[from] = true
		}
	}
	return at
}

// Protects peers with a delicate receiver (Soft-iWARP, adapters): on a network's
// segment sizes no FPDU straddles two segments, however messages are mixed, and
// large payload fills segments. On loopback, where FPDUs do straddle, none does
// so within the part of a header behind its first 16 bytes, nor within a trailer
// that has a CRC.
func TestSegments(t *testing.T) {
	for _, crc := range []bool{false, true} {
		for _, mss := range []int{536, 1448, 1461, 8948, 65483} {
			s, _ := engine(t, link{ird: 4, ord: 4, crc: crc, mss: mss}, 1<<20)
			out := newSegmenter(mss, 1<<30)
			s.qp.sock = out
			r := rand.New(rand.NewPCG(uint64(mss), 7))
			sizes := []int{0, 1, 16, 40, 64, 100, 300, 1400, 1448, 4096, 65536, 200_000}
			total := 0
			for range 12 {
				var wrs []verbs.SendWR
				for range 1 + r.IntN(20) {
					n := sizes[r.IntN(len(sizes))]
					total += n
					wrs = append(wrs, verbs.SendWR{Opcode: verbs.WROpcode(r.IntN(3)), SGEs: s.sge(r.IntN(1000), n), RKey: 1})
				}
				must(t, s.qp.PostSend(wrs))
				s.settle()
			}
			at, pos, straddle := out.boundaries(), 0, 0
			eachFPDU(out.stream, func(b []byte, c frame.Control) {
				crossed := false
				for i := 1; i < len(b); i++ {
					if !at[pos+i] {
						continue
					}
					crossed = true
					if i > frame.TaggedSize && i < c.HeaderSize() || crc && i > len(b)-frame.CRCSize {
						t.Fatalf("mss %d, crc %t: FPDU at %d of %d bytes is cut at %d", mss, crc, pos, len(b), i)
					}
				}
				if crossed {
					straddle++
				}
				pos += len(b)
			})
			if mss < smallMSS && straddle > 0 {
				t.Errorf("mss %d, crc %t: %d FPDUs straddle", mss, crc, straddle)
			}
			if mss%4 == 0 && len(at) > 2*total/mss+40 {
				t.Errorf("mss %d, crc %t: %d segments for %d bytes of payload", mss, crc, len(at), total)
			}
		}
	}
}

// Protects the alignment of small messages after a full socket: at most the FPDU that
// a short write has cut straddles segments, and none if the segment went on.
func TestSegmentsAfterShortWrite(t *testing.T) {
	for seed := range uint64(40) {
		s, _ := engine(t, link{ird: 4, ord: 4, crc: seed%2 == 0, mss: 1448}, 1<<20)
		r := rand.New(rand.NewPCG(seed, 7))
		out := newSegmenter(1448, 2000+r.IntN(20000))
		out.pushes = seed%4 > 1
		s.qp.sock = out
		sizes := []int{16, 16, 40, 300, 4096}
		for range 12 {
			var wrs []verbs.SendWR
			for range 1 + r.IntN(20) {
				n := sizes[r.IntN(len(sizes))]
				wrs = append(wrs, verbs.SendWR{Opcode: verbs.WROpcode(2 * r.IntN(2)), SGEs: s.sge(r.IntN(1000), n), RKey: 1})
			}
			must(t, s.qp.PostSend(wrs))
			s.settle()
		}
		at, pos := out.boundaries(), 0
		eachFPDU(out.stream, func(b []byte, _ frame.Control) {
			for i := 1; i < len(b); i++ {
				if at[pos+i] && !(out.pushes && out.short[pos+i]) {
					t.Errorf("seed %d: FPDU at %d of %d bytes straddles at %d", seed, pos, len(b), i)
				}
			}
			pos += len(b)
		})
	}
}

// Protects the alignment of a large message after a full socket: records end where
// FPDUs do.
func TestShortWrite(t *testing.T) {
	s, _ := engine(t, link{ird: 1, ord: 1, mss: 1448}, 1<<20)
	out := newSegmenter(1448, 5000)
	s.qp.sock = out
	must(t, s.qp.PostSend([]verbs.SendWR{{SGEs: s.sge(0, 100_000)}}))
	s.settle()
	ends := map[int]bool{}
	pos := 0
	eachFPDU(out.stream, func(b []byte, _ frame.Control) {
		pos += len(b)
		ends[pos] = true
	})
	for _, cut := range out.cuts[1:] {
		if !ends[cut] {
			t.Errorf("a record ends at %d, within an FPDU", cut)
		}
	}
	if len(out.cuts) < 10 {
		t.Errorf("%d records of %d writes", len(out.cuts), out.writes)
	}
}

// Protects answers to reads from long queues of sends, and the other way round:
// they take turns, and only tagged messages wait for each other's end.
func TestTurns(t *testing.T) {
	for name, tt := range map[string]struct {
		op  verbs.WROpcode
		max int // FPDUs of one kind in a row
	}{"sends": {verbs.WRSend, 1}, "writes": {verbs.WRRDMAWrite, 15}} {
		s, _ := engine(t, link{ird: 4, ord: 1, mss: 1448}, 1<<20)
		out := newSegmenter(1448, 0)
		s.qp.sock = out
		const n = 20_000
		var wrs []verbs.SendWR
		for range 4 {
			wrs = append(wrs, verbs.SendWR{Opcode: tt.op, SGEs: s.sge(0, n), RKey: 9})
		}
		s.qp.plugged++
		must(t, s.qp.PostSend(wrs))
		for msn := range uint32(4) {
			req := fpdu(frame.ReadRequest{MSN: msn + 1, SrcSTag: s.mr.RKey(), SrcTO: s.mr.Addr(), Length: n}.Append(nil), nil)
			if f := feed(s.qp, req, 100); f != nil {
				t.Fatal(f.cause)
			}
		}
		s.qp.plugged--
		out.limit = 1 << 30
		s.qp.tryTransmit()
		row, last, counts := 0, frame.Opcode(99), map[frame.Opcode]int{}
		total := 0
		eachFPDU(out.stream, func([]byte, frame.Control) { total++ })
		seen := 0
		eachFPDU(out.stream, func(_ []byte, c frame.Control) {
			if row++; c.Opcode() != last {
				row, last = 1, c.Opcode()
			}
			counts[last]++
			if seen++; row > tt.max && seen < total-16 { // at the end one kind is left
				t.Errorf("%s: %d FPDUs of %s in a row", name, row, last)
			}
		})
		if counts[frame.OpReadResponse] != 4*15 || len(counts) != 2 {
			t.Errorf("%s: %v", name, counts)
		}
	}
}

// Protects regions when one post is more than its caller sends: the worker sends
// the rest, in order, and in the end nobody holds the memory.
func TestPassedToken(t *testing.T) {
	const n = maxTurns + 4
	s, _ := engine(t, link{ird: 1, ord: 1, mss: 65483}, maxBatchBytes)
	out := newSegmenter(65483, 1<<30)
	s.qp.sock = out
	wrs := make([]verbs.SendWR, n)
	ids := make([]uint64, n)
	for i := range wrs {
		ids[i] = uint64(i)
		wrs[i] = verbs.SendWR{ID: ids[i], Opcode: verbs.WRRDMAWrite, SGEs: s.sge(0, maxBatchBytes), Flags: verbs.SendSignaled}
	}
	must(t, s.qp.PostSend(wrs))
	s.settle()
	s.ok(t, ids...)
	if refs := s.mr.(*mr).refs.Load(); refs != 0 {
		t.Errorf("%d accesses have not ended", refs)
	}
}
