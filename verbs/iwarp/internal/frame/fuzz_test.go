package frame

import (
	"bytes"
	"testing"
)

// FuzzMPA: what is accepted is encoded again to the same meaning.
func FuzzMPA(f *testing.F) {
	for _, path := range captures(f) {
		host, target := capture(f, path)
		f.Add(host[:56], false)
		f.Add(target[:56], true)
	}
	f.Add((&MPA{Revision: 1, CRC: true, Private: []byte("x")}).Append(nil), false)
	f.Fuzz(func(t *testing.T, b []byte, reply bool) {
		m, err := ParseMPA(b, reply)
		if err != nil || len(b) < MPAHeaderSize+m.PrivateSize() {
			return
		}
		b = b[:MPAHeaderSize+m.PrivateSize()]
		m.ParsePrivate(b[MPAHeaderSize:])
		again := m.Append(nil)
		again[16] |= b[16] &^ (mpaMarkers | mpaCRC | mpaReject) // reserved bits are not kept
		if m.Revision < 2 {
			again[16] = again[16]&^mpaEnhanced | b[16]&mpaEnhanced
		}
		if !bytes.Equal(again, b) {
			t.Fatalf("\n got %x\nfrom %x", again, b)
		}
	})
}

// FuzzTerminate: any body is understood or refused, and what was understood is
// stable.
func FuzzTerminate(f *testing.F) {
	f.Add(NewTerminate(TermReadSTag, ReadRequest{MSN: 7}.Append(nil)).Append(nil)[UntaggedSize:])
	f.Add([]byte{0x21, 2, 3, 0, 0, 16})
	f.Fuzz(func(t *testing.T, body []byte) {
		a, ok := ParseTerminate(body)
		if !ok {
			return
		}
		_ = a.String()
		a.Offender()
		if len(a.Append(nil)) > MaxTerminate {
			t.Fatalf("%d bytes", len(a.Append(nil)))
		}
	})
}
