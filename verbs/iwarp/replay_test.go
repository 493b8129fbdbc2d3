package iwarp

import (
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"rbd/verbs"
	"rbd/verbs/iwarp/internal/frame"
)

// capture reads a recorded connection: the bytes of the host and of the target,
// without the MPA frames.
func capture(t testing.TB, name string) (dirs [2][]byte) {
	t.Helper()
	f, err := os.Open("testdata/siw-stream-" + name + ".txt.gz")
	must(t, err)
	defer f.Close()
	z, err := gzip.NewReader(f)
	must(t, err)
	sc := bufio.NewScanner(z)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		b, err := hex.DecodeString(strings.TrimSpace(sc.Text()))
		must(t, err)
		d := 0
		if strings.HasPrefix(sc.Text(), "\t") {
			d = 1
		}
		dirs[d] = append(dirs[d], b...)
	}
	must(t, sc.Err())
	for i, d := range dirs {
		m, err := frame.ParseMPA(d, i == 1)
		must(t, err)
		dirs[i] = d[frame.MPAHeaderSize+m.PrivateSize():]
	}
	return dirs
}

func eachFPDU(stream []byte, do func(fpdu []byte, c frame.Control)) {
	for len(stream) > 0 {
		ulpdu, c := frame.Prefix(stream)
		n := frame.LengthSize + ulpdu + frame.TrailerSize(ulpdu)
		do(stream[:n], c)
		stream = stream[n:]
	}
}

// extent is the memory behind a key of the recording.
type extent struct {
	from, to uint64
	access   verbs.Access
}

// replay gives the receiver the recorded bytes of one side, after having set up
// what the other side had: regions under the recorded keys, reads outstanding,
// receives. It returns a digest of all that was delivered.
func replay(t *testing.T, d *device, in, out []byte, chunk func() int) (digest string) {
	t.Helper()
	t.Run("", func(t *testing.T) { digest = replayed(t, d, in, out, chunk) })
	return digest
}

func replayed(t *testing.T, d *device, in, out []byte, chunk func() int) string {
	t.Helper()
	const recvSize, depth = 8 << 10, 64
	s, _ := engineOn(t, d, link{ird: 1024, ord: 1024, mss: 1448}, depth*recvSize)
	q := s.qp
	regions := map[uint32]*extent{}
	grow := func(key uint32, at, n uint64, access verbs.Access) {
		e := regions[key]
		if e == nil {
			e = &extent{from: at}
			regions[key] = e
		}
		e.from, e.to, e.access = min(e.from, at), max(e.to, at+n), e.access|access
	}
	sinks := map[uint32]uint64{} // where the recorded reads begin, by sink STag
	q.sq = newSendQueue(1024, 1, 0)
	eachFPDU(out, func(b []byte, c frame.Control) {
		if c.Opcode() == frame.OpReadRequest {
			r, _, _ := frame.ParseReadRequest(b)
			sinks[r.SinkSTag] = r.SinkTO
			grow(r.SinkSTag, 0, uint64(r.Length), verbs.AccessLocalWrite)
			*q.orq.at(q.orq.tail) = outRead{sq: q.sq.tail, stag: r.SinkSTag, length: r.Length}
			w := q.sq.at(q.sq.tail)
			w.wr = verbs.SendWR{Opcode: verbs.WRRDMARead, SGEs: []verbs.SGE{{Length: r.Length, LKey: r.SinkSTag}}}
			q.orq.tail++
			q.sq.tail++
		}
	})
	in = append([]byte(nil), in...)
	eachFPDU(in, func(b []byte, c frame.Control) {
		switch c.Opcode() {
		case frame.OpWrite:
			h, _ := frame.ParseTagged(b)
			grow(h.STag, h.TO, uint64(h.Payload), allRights)
		case frame.OpReadRequest:
			r, _, _ := frame.ParseReadRequest(b)
			grow(r.SrcSTag, r.SrcTO, uint64(r.Length), verbs.AccessRemoteRead)
		case frame.OpReadResponse: // our reads begin at offset 0
			h, _ := frame.ParseTagged(b)
			h.TO -= sinks[h.STag]
			h.Append(b[:0])
		}
	})
	eachFPDU(in, func(b []byte, c frame.Control) {
		if h, _ := frame.ParseUntagged(b); h.Op.Invalidates() && regions[h.InvSTag] == nil {
			regions[h.InvSTag] = &extent{access: allRights} // never used otherwise
		}
	})
	sum := sha256.New()
	for key, e := range regions {
		s.grant(t, key, e.from, make([]byte, e.to-e.from), e.access)
	}
	var recvs []verbs.RecvWR
	for i := range depth {
		recvs = append(recvs, verbs.RecvWR{ID: uint64(i), SGEs: s.sge(i*recvSize, recvSize)})
	}
	must(t, q.PostRecv(recvs))
	for len(in) > 0 {
		n := min(chunk(), len(in), 2000) // so that the receives are enough
		if f := feed(q, in[:n], n); f != nil {
			t.Fatalf("%v", f.cause)
		}
		in = in[n:]
		var wcs [depth]verbs.WC
		for _, wc := range wcs[:s.cq.Poll(wcs[:])] {
			fmt.Fprintln(sum, wc.ID, wc.Opcode, wc.Status, wc.ByteLen)
			sum.Write(s.mem[wc.ID*recvSize:][:wc.ByteLen])
			must(t, q.PostRecv(recvs[wc.ID:wc.ID+1]))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(regions)) {
		sum.Write(q.dev.keys.find(key).mem)
	}
	fmt.Fprintln(sum, q.irq.tail, q.orq.count(), q.rx.between())
	return hex.EncodeToString(sum.Sum(nil))
}

// Protects agreement with the kernel, and independence of how TCP cuts the
// stream: what Soft-iWARP sent is delivered in full and is the same whatever the
// pieces.
func TestReplay(t *testing.T) {
	d := New().dev
	for _, name := range []string{"discover", "admin-queue", "connect-unknown-nqn", "io-queue"} {
		dirs := capture(t, name)
		for i, in := range dirs {
			out := dirs[1-i]
			whole := replay(t, d, in, out, func() int { return len(in) })
			chunks := []int{1, 2, 3, 7, 19, 20, 52, 1448}
			if len(in) > 200_000 {
				chunks = []int{61, 1448}
			}
			for _, c := range chunks {
				if got := replay(t, d, in, out, func() int { return c }); got != whole {
					t.Errorf("%s, direction %d: pieces of %d change what is delivered", name, i, c)
				}
			}
		}
	}
}

// Protects every boundary within the FPDUs: a stream with each kind of message,
// cut once, at every byte.
func TestReplaySplitOnce(t *testing.T) {
	d, dirs := New().dev, capture(t, "discover")
	for i, in := range dirs {
		in, out := in[:min(len(in), 1200)], dirs[1-i]
		in = wholeFPDUs(in)
		whole := replay(t, d, in, out, func() int { return len(in) })
		for at := 1; at < len(in); at++ {
			first := true
			got := replay(t, d, in, out, func() int {
				if first {
					first = false
					return at
				}
				return len(in)
			})
			if got != whole {
				t.Fatalf("direction %d: a cut at %d changes what is delivered", i, at)
			}
		}
	}
}

// wholeFPDUs cuts off a part of an FPDU at the end.
func wholeFPDUs(b []byte) []byte {
	for n := 0; ; {
		if len(b)-n < frame.PrefixSize {
			return b[:n]
		}
		ulpdu, _ := frame.Prefix(b[n:])
		size := frame.LengthSize + ulpdu + frame.TrailerSize(ulpdu)
		if size > len(b)-n {
			return b[:n]
		}
		n += size
	}
}
