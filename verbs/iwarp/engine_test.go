package iwarp

import (
	"errors"
	"io"
	"testing"

	"golang.org/x/sys/unix"

	"rbd/verbs"
	"rbd/verbs/iwarp/internal/frame"
)

// sink is a stream that takes everything and gives nothing.
type sink struct {
	memStream
	sent []byte
}

func newSink() *sink {
	s := &sink{}
	a, _ := memStreams(1<<30, 1<<30)
	s.memStream = *a
	return s
}

func (s *sink) TryWritev(iov []unix.Iovec, eor bool) (int, error) {
	b := gather(iov)
	s.sent = append(s.sent, b...)
	return len(b), nil
}

func (s *sink) Readv([]unix.Iovec) (int, error) { return 0, io.EOF }

// engine is a QP without a receiver goroutine: the test feeds it.
func engine(t testing.TB, l link, n int) (*side, *sink) {
	t.Helper()
	return engineOn(t, New().dev, l, n)
}

func engineOn(t testing.TB, d *device, l link, n int) (*side, *sink) {
	t.Helper()
	s, out := newSide(t, d, nil, n).bare(t), newSink()
	s.open(t, out, l)
	return s, out
}

// open gives the side's QP a connection, but no receiver.
func (s *side) open(t testing.TB, to stream, l link) {
	t.Helper()
	s.qp.mu.Lock()
	defer s.qp.mu.Unlock()
	must(t, s.qp.open(to, l))
}

// grant gives a key that the test chooses to memory at an address that it
// chooses. The side's own key, which is random, makes way.
func (s *side) grant(t testing.TB, key uint32, base uint64, mem []byte, access verbs.Access) *mr {
	t.Helper()
	for s.mr.LKey()%keySlots == key%keySlots {
		must(t, s.mr.Dereg())
		var err error
		s.mr, err = s.pd.RegMR(s.mem, allRights)
		must(t, err)
	}
	m := &mr{pd: s.qp.pd, mem: mem, base: base, key: key, access: access, drained: make(chan struct{}, 1)}
	slot := &s.dev.keys.slots[key%keySlots]
	if !slot.CompareAndSwap(nil, m) {
		t.Fatalf("the slot of key %#x is taken", key)
	}
	t.Cleanup(func() { slot.CompareAndSwap(m, nil) })
	return m
}

// settle waits until nobody transmits.
func (s *side) settle() {
	s.qp.mu.Lock()
	defer s.qp.mu.Unlock()
	for s.qp.txBusy {
		s.qp.txIdle.Wait()
	}
}

// feed gives the receiver the bytes in pieces of at most chunk.
func feed(q *qp, b []byte, chunk int) *fault {
	for len(b) > 0 {
		iov, f := q.rx.iovecs()
		if f != nil {
			return f
		}
		n := scatter(iov, b[:min(len(b), chunk)])
		if f := q.rx.received(n); f != nil {
			return f
		}
		b = b[n:]
	}
	return nil
}

// fpdu is a whole FPDU without CRC.
func fpdu(header, payload []byte) []byte {
	return frame.AppendTrailer(append(header, payload...), 0, false)
}

func tagged(h frame.Tagged) []byte {
	return fpdu(h.Append(nil), make([]byte, h.Payload))
}

func untagged(h frame.Untagged) []byte {
	return fpdu(h.Append(nil), make([]byte, h.Payload))
}

func join(parts ...[]byte) (b []byte) {
	for _, p := range parts {
		b = append(b, p...)
	}
	return b
}

// Protects from everything that a peer can do wrong: each breach ends the
// connection with the code that the RFCs have for it, whatever pieces it comes
// in, and places nothing outside of what was granted.
func TestBreaches(t *testing.T) {
	const size = 4096
	send := frame.Untagged{Op: frame.OpSend, Last: true, MSN: 1, Payload: 8}
	with := func(change func(*frame.Untagged)) []byte {
		h := send
		change(&h)
		return untagged(h)
	}
	raw := func(b []byte, change func([]byte)) []byte { change(b); return b }
	type keys struct{ all, readOnly, writeOnly, foreign, base uint64 }
	write := func(key, to uint64, n int) []byte {
		return tagged(frame.Tagged{Op: frame.OpWrite, Last: true, STag: uint32(key), TO: to, Payload: n})
	}
	read := func(msn uint32, key, from uint64, n uint32) []byte {
		return fpdu(frame.ReadRequest{MSN: msn, SrcSTag: uint32(key), SrcTO: from, Length: n}.Append(nil), nil)
	}
	for name, tt := range map[string]struct {
		bytes func(k keys) []byte
		want  frame.TermCode
	}{
		"DDP version tagged":   {func(k keys) []byte { return raw(write(k.all, k.base, 8), func(b []byte) { b[2] = 0xC2 }) }, frame.TermTaggedVersion},
		"DDP version untagged": {func(keys) []byte { return raw(untagged(send), func(b []byte) { b[2] = 0x42 }) }, frame.TermUntaggedVersion},
		"RDMAP version":        {func(keys) []byte { return raw(untagged(send), func(b []byte) { b[3] = 0x83 }) }, frame.TermRDMAPVersion},
		"opcode":               {func(keys) []byte { return raw(untagged(send), func(b []byte) { b[3] = 0x4A }) }, frame.TermOpcode},
		"tagged Send":          {func(keys) []byte { return raw(untagged(send), func(b []byte) { b[2] = 0xC1 }) }, frame.TermOpcode},
		"short header":         {func(keys) []byte { return raw(untagged(send), func(b []byte) { b[1] = 17 }) }, frame.TermMPAFrame},
		"empty FPDU":           {func(keys) []byte { return make([]byte, 64) }, frame.TermUntaggedVersion},
		"short Read Request":   {func(k keys) []byte { return raw(read(1, k.all, k.base, 1), func(b []byte) { b[1] = 45 }) }, frame.TermMPAFrame},

		"Send on queue 1":         {func(keys) []byte { return with(func(h *frame.Untagged) { h.QN = 1 }) }, frame.TermQueue},
		"Send on queue 3":         {func(keys) []byte { return with(func(h *frame.Untagged) { h.QN = 3 }) }, frame.TermQueue},
		"Read Request on queue 0": {func(k keys) []byte { return raw(read(1, k.all, k.base, 1), func(b []byte) { b[11] = 0 }) }, frame.TermQueue},
		"MSN 0":                   {func(keys) []byte { return with(func(h *frame.Untagged) { h.MSN = 0 }) }, frame.TermMSN},
		"MSN 2":                   {func(keys) []byte { return with(func(h *frame.Untagged) { h.MSN = 2 }) }, frame.TermMSN},
		"MSN twice":               {func(keys) []byte { return join(untagged(send), untagged(send)) }, frame.TermMSN},
		"Read Request MSN 2":      {func(k keys) []byte { return read(2, k.all, k.base, 1) }, frame.TermMSN},
		"first MO 4":              {func(keys) []byte { return with(func(h *frame.Untagged) { h.MO = 4 }) }, frame.TermMO},
		"MO gap": {func(keys) []byte {
			return join(with(func(h *frame.Untagged) { h.Last = false }), with(func(h *frame.Untagged) { h.MO = 16 }))
		}, frame.TermMO},
		"MO of a Read Request":    {func(k keys) []byte { return raw(read(1, k.all, k.base, 1), func(b []byte) { b[19] = 1 }) }, frame.TermMO},
		"Read Request with L off": {func(k keys) []byte { return raw(read(1, k.all, k.base, 1), func(b []byte) { b[2] = 0x01 }) }, frame.TermTooLong},
		"Read Request and payload": {func(k keys) []byte {
			return raw(append(read(1, k.all, k.base, 1), 0, 0, 0, 0), func(b []byte) { b[1] = 50 })
		}, frame.TermTooLong},
		"opcode changes within a message": {func(keys) []byte {
			return join(with(func(h *frame.Untagged) { h.Last = false }), with(func(h *frame.Untagged) { h.Op, h.MO = frame.OpSendSE, 8 }))
		}, frame.TermOpcode},
		"too long": {func(keys) []byte { return with(func(h *frame.Untagged) { h.Payload = 65 }) }, frame.TermTooLong},
		"too long by the second segment": {func(keys) []byte {
			return join(with(func(h *frame.Untagged) { h.Payload, h.Last = 64, false }), with(func(h *frame.Untagged) { h.MO = 64 }))
		}, frame.TermTooLong},
		"no receive": {func(keys) []byte {
			return join(untagged(send), with(func(h *frame.Untagged) { h.MSN = 2 }), with(func(h *frame.Untagged) { h.MSN = 3 }))
		}, frame.TermNoBuffer},
		"invalidate an unknown key": {func(keys) []byte { return with(func(h *frame.Untagged) { h.Op, h.InvSTag = frame.OpSendInv, 1 }) }, frame.TermInvalidate},
		"invalidate a foreign key": {func(k keys) []byte {
			return with(func(h *frame.Untagged) { h.Op, h.InvSTag = frame.OpSendInv, uint32(k.foreign) })
		}, frame.TermInvalidate},

		"write to an unknown key": {func(k keys) []byte { return write(k.all^1<<31, k.base, 8) }, frame.TermTaggedSTag},
		"write below":             {func(k keys) []byte { return write(k.all, k.base-1, 8) }, frame.TermTaggedBounds},
		"write above":             {func(k keys) []byte { return write(k.all, k.base+size-7, 8) }, frame.TermTaggedBounds},
		"write far above":         {func(k keys) []byte { return write(k.all, k.base+1<<40, 8) }, frame.TermTaggedBounds},
		"write across the wrap":   {func(k keys) []byte { return write(k.all, ^uint64(0)-3, 8) }, frame.TermTaggedWrap},
		"write without the right": {func(k keys) []byte { return write(k.readOnly, k.base, 8) }, frame.TermAccess},
		"write to a foreign key":  {func(k keys) []byte { return write(k.foreign, k.base, 8) }, frame.TermTaggedNotAssoc},
		"write to an ended key": {func(k keys) []byte {
			return join(with(func(h *frame.Untagged) { h.Op, h.InvSTag = frame.OpSendInv, uint32(k.all) }), write(k.all, k.base, 8))
		}, frame.TermTaggedSTag},
		"STag changes in a write": {func(k keys) []byte {
			return join(tagged(frame.Tagged{STag: uint32(k.all), TO: k.base, Payload: 8}), write(k.writeOnly, k.base+8, 8))
		}, frame.TermTaggedSTag},
		"TO jumps in a write": {func(k keys) []byte {
			return join(tagged(frame.Tagged{STag: uint32(k.all), TO: k.base, Payload: 8}), write(k.all, k.base+12, 8))
		}, frame.TermTaggedBounds},
		"response within a write": {func(k keys) []byte {
			return join(tagged(frame.Tagged{STag: uint32(k.all), TO: k.base, Payload: 8}), tagged(frame.Tagged{Op: frame.OpReadResponse, Last: true, STag: 7, Payload: 100}))
		}, frame.TermOpcode},
		"read of an unknown key": {func(k keys) []byte { return read(1, k.all^1<<31, k.base, 8) }, frame.TermReadSTag},
		"read out of bounds":     {func(k keys) []byte { return read(1, k.all, k.base, size+1) }, frame.TermReadBounds},
		"read of all":            {func(k keys) []byte { return read(1, k.all, 0, 0xFFFFFFFF) }, frame.TermReadBounds},
		"read across the wrap":   {func(k keys) []byte { return read(1, k.all, ^uint64(0)-3, 8) }, frame.TermReadWrap},
		"read without the right": {func(k keys) []byte { return read(1, k.writeOnly, k.base, 8) }, frame.TermAccess},
		"read of a foreign key":  {func(k keys) []byte { return read(1, k.foreign, k.base, 8) }, frame.TermReadNotAssoc},
		"more reads than IRD": {func(k keys) []byte {
			return join(read(1, k.all, k.base, 8), read(2, 0, 0, 0), read(3, k.all, k.base, 8))
		}, frame.TermStream},
		"response with wrong STag": {func(keys) []byte {
			return tagged(frame.Tagged{Op: frame.OpReadResponse, Last: true, STag: 8, Payload: 100})
		}, frame.TermTaggedSTag},
		"response at wrong TO": {func(keys) []byte {
			return tagged(frame.Tagged{Op: frame.OpReadResponse, Last: true, STag: 7, TO: 4, Payload: 96})
		}, frame.TermTaggedBounds},
		"response too long": {func(keys) []byte {
			return tagged(frame.Tagged{Op: frame.OpReadResponse, Last: true, STag: 7, Payload: 101})
		}, frame.TermTaggedBounds},
		"response too short": {func(keys) []byte {
			return tagged(frame.Tagged{Op: frame.OpReadResponse, Last: true, STag: 7, Payload: 99})
		}, frame.TermTaggedBounds},
		"response does not end": {func(keys) []byte { return tagged(frame.Tagged{Op: frame.OpReadResponse, STag: 7, Payload: 100}) }, frame.TermTaggedBounds},
		"second response": {func(keys) []byte {
			return join(tagged(frame.Tagged{Op: frame.OpReadResponse, Last: true, STag: 7, Payload: 100}), tagged(frame.Tagged{Op: frame.OpReadResponse, Last: true, STag: 7}))
		}, frame.TermOpcode},
		"huge Terminate": {func(keys) []byte {
			return untagged(frame.Untagged{Op: frame.OpTerminate, Last: true, QN: 2, MSN: 1, Payload: 5000})
		}, frame.TermMPAFrame},
		"short Terminate": {func(keys) []byte {
			return untagged(frame.Untagged{Op: frame.OpTerminate, Last: true, QN: 2, MSN: 1, Payload: 3})
		}, frame.TermMPAFrame},
	} {
		for _, chunk := range []int{1, 13, 1 << 20} {
			s, _ := engine(t, link{ird: 2, ord: 1, mss: 1448}, 4*size)
			k := breachKeys(t, s, size)
			stream := tt.bytes(keys{k[0], k[1], k[2], k[3], s.mr.Addr() + size})
			fill(s.mem, 3)
			before := string(s.mem[:size]) + string(s.mem[2*size:])
			f := feed(s.qp, stream, chunk)
			switch {
			case f == nil || f.term == nil:
				t.Errorf("%s in pieces of %d: no Terminate: %+v", name, chunk, f)
			case f.term.TermCode != tt.want:
				t.Errorf("%s in pieces of %d: %v (%s), want %s", name, chunk, f.cause, f.term.TermCode, tt.want)
			}
			if before != string(s.mem[:size])+string(s.mem[2*size:]) {
				t.Errorf("%s: memory outside of the region has changed", name)
			}
		}
	}
}

// breachKeys grants the second size bytes of the memory with all remote rights,
// only READ, only WRITE, and all on another domain. It posts two receives of 64
// bytes and has a read of 100 bytes with STag 7 outstanding.
func breachKeys(t *testing.T, s *side, size int) (keys [4]uint64) {
	t.Helper()
	foreign, err := s.dev.AllocPD()
	must(t, err)
	window := s.mem[size : 2*size]
	for i, r := range []struct {
		pd     verbs.PD
		access verbs.Access
	}{{s.pd, allRights}, {s.pd, verbs.AccessRemoteRead}, {s.pd, verbs.AccessRemoteWrite | verbs.AccessLocalWrite}, {foreign, allRights}} {
		m, err := r.pd.RegMR(window, r.access)
		must(t, err)
		keys[i] = uint64(m.RKey())
		t.Cleanup(func() { must(t, m.Dereg()) })
	}
	at := func(off, n int) []verbs.SGE {
		return []verbs.SGE{{Addr: s.mr.Addr() + uint64(size+off), Length: uint32(n), LKey: s.mr.LKey()}}
	}
	must(t, s.qp.PostRecv([]verbs.RecvWR{{ID: 1, SGEs: at(0, 64)}, {ID: 2, SGEs: at(64, 64)}}))
	must(t, s.qp.PostSend([]verbs.SendWR{{ID: 3, Opcode: verbs.WRRDMARead, SGEs: at(128, 100)}}))
	s.qp.orq.at(0).stag = 7
	return keys
}

// Protects from a bit that falls over: with CRC on nothing of a damaged FPDU is
// taken, whichever byte it is.
func TestCRCMismatch(t *testing.T) {
	b := frame.AppendTrailer(append(frame.Untagged{Op: frame.OpSend, Last: true, MSN: 1, Payload: 5}.Append(nil), "hello"...), 0, true)
	for i := 2; i < len(b); i++ {
		s, _ := engine(t, link{crc: true, mss: 1448}, 4096)
		must(t, s.qp.PostRecv([]verbs.RecvWR{{ID: 1, SGEs: s.sge(0, 64)}}))
		before := string(s.mem)
		b[i] ^= 0x10
		f := feed(s.qp, b, 7)
		b[i] ^= 0x10
		if f == nil || f.term == nil || f.term.TermCode != frame.TermMPACRC || string(s.mem) != before {
			t.Fatalf("byte %d: %+v", i, f)
		}
	}
}

// Protects what a program learns of a Terminate: the words, and the status of
// the request that the peer complains of.
func TestTerminateBlames(t *testing.T) {
	s, _ := engine(t, link{ird: 1, ord: 4, mss: 1448}, 4096)
	var wrs []verbs.SendWR
	for i := range uint64(3) {
		wrs = append(wrs, verbs.SendWR{ID: i, Opcode: verbs.WRRDMARead, SGEs: s.sge(0, 8)})
	}
	must(t, s.qp.PostSend(wrs))
	term := frame.NewTerminate(frame.TermReadBounds, frame.ReadRequest{MSN: 2}.Append(nil))
	f := feed(s.qp, frame.AppendTrailer(term.Append(nil), 0, false), 5)
	if f == nil || f.term != nil {
		t.Fatalf("%+v, want a fault without a Terminate", f)
	}
	if want := "peer terminated the connection: RDMAP remote protection error: base or bounds violation"; f.cause.Error() != want {
		t.Errorf("%q, want %q", f.cause, want)
	}
	s.qp.fail(f)
	s.qp.bury()
	if err := s.end(t); !errors.Is(err, f.cause) {
		t.Error(err)
	}
	for i, wc := range s.take(t, 3) {
		want := []verbs.WCStatus{verbs.WCWRFlushErr, verbs.WCRemAccessErr, verbs.WCWRFlushErr}[i]
		if wc.ID != uint64(i) || wc.Status != want {
			t.Errorf("completion %d: %+v, want %s", i, wc, want)
		}
	}
}
