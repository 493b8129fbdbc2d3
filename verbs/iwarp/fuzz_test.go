package iwarp

import (
	"testing"

	"rbd/verbs"
	"rbd/verbs/iwarp/internal/frame"
)

// FuzzReceive: whatever the stream holds and in whatever pieces it comes, the
// receiver does not panic, touches granted memory only, and keeps to its queues.
func FuzzReceive(f *testing.F) {
	const key, base, size = 0x11223344, 0x1000, 256
	send := frame.Untagged{Op: frame.OpSend, Last: true, MSN: 1, Payload: 8}
	inv := frame.Untagged{Op: frame.OpSendInv, Last: true, MSN: 2, Payload: 3, InvSTag: key}
	f.Add(join(untagged(send), untagged(inv), tagged(frame.Tagged{Op: frame.OpWrite, Last: true, STag: key, TO: base, Payload: 8})), uint8(5), false)
	f.Add(join(tagged(frame.Tagged{Op: frame.OpWrite, STag: key, TO: base, Payload: 200}), untagged(send),
		tagged(frame.Tagged{Op: frame.OpWrite, Last: true, STag: key, TO: base + 200, Payload: 56})), uint8(0), false)
	f.Add(join(tagged(frame.Tagged{Op: frame.OpReadResponse, STag: 7, Payload: 60}), fpdu(frame.ReadRequest{MSN: 1, SrcSTag: key, SrcTO: base, Length: size}.Append(nil), nil),
		tagged(frame.Tagged{Op: frame.OpReadResponse, Last: true, STag: 7, TO: 60, Payload: 40})), uint8(40), false)
	term := frame.NewTerminate(frame.TermReadSTag, frame.ReadRequest{MSN: 1}.Append(nil))
	f.Add(frame.AppendTrailer(term.Append(nil), 0, true), uint8(3), true)
	f.Add(frame.AppendTrailer(send.Append(nil), 0, true), uint8(1), true)
	d := New().dev
	f.Fuzz(func(t *testing.T, stream []byte, chunk uint8, crc bool) {
		s, _ := engineOn(t, d, link{ird: 2, ord: 1, crc: crc, mss: 1448}, 4*size)
		q := s.qp
		granted := s.grant(t, key, base, s.mem[2*size:3*size:3*size], allRights)
		must(t, q.PostRecv([]verbs.RecvWR{{ID: 1, SGEs: append(s.sge(size, 40), s.sge(size+40, 24)...)}, {ID: 2, SGEs: s.sge(size+64, 64)}}))
		must(t, q.PostSend([]verbs.SendWR{{ID: 3, Opcode: verbs.WRRDMARead, SGEs: s.sge(size+128, 100)}}))
		q.orq.at(0).stag = 7
		feed(q, stream, int(chunk)+1)
		q.rx.unpin()
		for i, b := range s.mem {
			if b != 0 && (i < size || i >= 3*size || i >= size+228 && i < 2*size) {
				t.Fatalf("byte %d was not granted, and has changed", i)
			}
		}
		if n := q.irq.tail - q.irq.head; n > 2 || q.orq.count() > 1 || q.rq.tail-q.rq.head > 2 {
			t.Fatalf("queues: %d reads, %d outstanding, %d receives", n, q.orq.count(), q.rq.tail-q.rq.head)
		}
		if n := granted.refs.Load() &^ ended; n != 0 {
			t.Fatalf("%d accesses were not ended", n)
		}
	})
}
