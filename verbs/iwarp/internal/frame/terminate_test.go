package frame

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Protects the form of the RFC, with each kind of copied header.
func TestTerminateRoundTrip(t *testing.T) {
	read := ReadRequest{MSN: 7, SinkSTag: 1, Length: 2, SrcSTag: 3, SrcTO: 4}.Append(nil)
	for name, tt := range map[string]struct {
		t    Terminate
		tail string // of the bytes, from the error code on
	}{
		"no header": {NewTerminate(TermMPACRC, nil), "20 02 00 00"},
		"tagged": {NewTerminate(TermTaggedBounds, Tagged{Op: OpWrite, Last: true, STag: 5, TO: 6, Payload: 10}.Append(nil)),
			"11 01 c0 00 0018 c140 00000005 0000000000000006"},
		"untagged": {NewTerminate(TermNoBuffer, Untagged{Op: OpSend, Last: true, MSN: 9, Payload: 16}.Append(nil)),
			"12 02 c0 00 0022 4143 00000000 00000000 00000009 00000000"},
		"Read Request": {NewTerminate(TermReadSTag, read),
			"01 00 e0 00 002e 4141 00000000 00000001 00000007 00000000 00000001 0000000000000000 00000002 00000003 0000000000000004"},
	} {
		b := tt.t.Append(nil)
		if want := unhex(t, tt.tail); !bytes.Equal(b[UntaggedSize:], want) {
			t.Errorf("%s:\n got %x\nwant %x", name, b[UntaggedSize:], want)
		}
		if h, ok := ParseUntagged(b); !ok || h.Op != OpTerminate || h.QN != QueueTerminate || h.MSN != 1 || h.Payload != len(b)-UntaggedSize || len(b) > MaxTerminate {
			t.Errorf("%s: header %+v of %d bytes", name, h, len(b))
		}
		got, ok := ParseTerminate(b[UntaggedSize:])
		if d := cmp.Diff(tt.t, got); !ok || d != "" {
			t.Errorf("%s: %t %s", name, ok, d)
		}
	}
}

// Protects the diagnosis of errors that Soft-iWARP reports: it swaps the nibbles
// of layer and type, and mirrors the flags.
func TestTerminateOfSoftiWARP(t *testing.T) {
	sendHeader := Untagged{Op: OpSend, Last: true, MSN: 9, Payload: 16}.Append(nil)[LengthSize:]
	for name, tt := range map[string]struct {
		body   []byte
		want   TermCode
		header []byte
	}{
		"CRC":               {unhex(t, "02 02 00 00"), TermMPACRC, nil},
		"no buffer":         {append(unhex(t, "21 02 03 00 0010"), sendHeader...), TermNoBuffer, sendHeader},
		"catastrophic":      {unhex(t, "20 07 00 00"), TermMPARTR, nil}, // can't be told from the RFC's form
		"the RFC's form":    {append(unhex(t, "12 02 c0 00 0010"), sendHeader...), TermNoBuffer, sendHeader},
		"header is cut off": {unhex(t, "12 02 c0 00 0010 4143 00"), TermNoBuffer, nil},
	} {
		got, ok := ParseTerminate(tt.body)
		if !ok || got.TermCode != tt.want || !bytes.Equal(got.Header, tt.header) {
			t.Errorf("%s: %+v, %t", name, got, ok)
		}
	}
	if _, ok := ParseTerminate([]byte{0x12, 2, 0}); ok {
		t.Error("3 bytes are accepted")
	}
}

// Protects the blame: the request that failed is found by queue and number.
func TestOffender(t *testing.T) {
	read := NewTerminate(TermReadSTag, ReadRequest{MSN: 7}.Append(nil))
	if h, ok := read.Offender(); !ok || h.QN != QueueReadRequest || h.MSN != 7 {
		t.Errorf("%+v, %t", h, ok)
	}
	if h, ok := NewTerminate(TermTaggedSTag, Tagged{}.Append(nil)).Offender(); ok {
		t.Errorf("a tagged header names message %+v", h)
	}
	if h, ok := NewTerminate(TermMPACRC, nil).Offender(); ok {
		t.Errorf("no header names message %+v", h)
	}
}

// Protects users from bare numbers: every code of the RFCs has words.
func TestTermCodeWords(t *testing.T) {
	seen := map[string]bool{}
	for c, s := range termWords {
		if !c.Known() || c.String() != s || seen[s] && c.Code != 0x09 {
			t.Errorf("%+v: %q", c, c)
		}
		seen[s] = true
	}
	if s := (TermCode{3, 4, 5}).String(); s != "error of layer 3, type 4, code 0x05" {
		t.Error(s)
	}
	if n := TermTooLong.Number(); n != 0x1205 {
		t.Errorf("%#x", n)
	}
}
