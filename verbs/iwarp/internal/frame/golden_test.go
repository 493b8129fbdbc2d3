package frame

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

// golden are whole FPDUs with CRC, as other implementations send them.
var golden = map[string]struct {
	fpdu   string
	append func([]byte) []byte
}{
	"empty RDMA Write": {"000e c140 00000001 0000000000000000  ebd34c5f",
		Tagged{Op: OpWrite, Last: true, STag: 1}.Append},
	"Send of 16 bytes": {"0022 4143 00000000 00000000 00000001 00000000 00000000000000000000000000000000  84609a12",
		withPayload(Untagged{Op: OpSend, Last: true, MSN: 1, Payload: 16}, string(make([]byte, 16)))},
	"Send with padding": {"0017 4143 00000000 00000000 00000001 00000000 68656c6c6f 000000  b990b10c",
		withPayload(Untagged{Op: OpSend, Last: true, MSN: 1, Payload: 5}, "hello")},
	"Send with Invalidate": {"0022 4144 00abcd01 00000000 00000002 00000000 00000000000000000000000000000000  bfb5c1f2",
		withPayload(Untagged{Op: OpSendInv, Last: true, InvSTag: 0x00abcd01, MSN: 2, Payload: 16}, string(make([]byte, 16)))},
	"Read Request": {"002e 4141 00000000 00000001 00000001 00000000 11223344 0000000000001000 00001000 55667788 0000000000002000  b686e2f8",
		ReadRequest{MSN: 1, SinkSTag: 0x11223344, SinkTO: 0x1000, Length: 4096, SrcSTag: 0x55667788, SrcTO: 0x2000}.Append},
}

func withPayload(h Untagged, payload string) func([]byte) []byte {
	return func(b []byte) []byte { return append(h.Append(b), payload...) }
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Protects the layout of headers, padding and CRC, byte by byte.
func TestGolden(t *testing.T) {
	for name, g := range golden {
		want := unhex(t, g.fpdu)
		prefix := []byte{9, 9, 9}
		got := AppendTrailer(g.append(bytes.Clone(prefix)), len(prefix), true)[len(prefix):]
		if !bytes.Equal(got, want) {
			t.Errorf("%s:\n got %x\nwant %x", name, got, want)
		}
		if !CheckCRC(want) {
			t.Errorf("%s: CRC is not accepted", name)
		}
		ulpdu, c := Prefix(want)
		if len(want) != LengthSize+ulpdu+TrailerSize(ulpdu) {
			t.Errorf("%s: %d bytes for a ULPDU of %d", name, len(want), ulpdu)
		}
		if code, ok := c.Check(); !ok {
			t.Errorf("%s: control word refused: %s", name, code)
		}
		for i := range want {
			want[i] ^= 1
			if CheckCRC(want) {
				t.Errorf("%s: a change of byte %d is not seen", name, i)
			}
			want[i] ^= 1
		}
	}
}

// Protects the check of the control word: versions, opcodes, buffer model.
func TestControlCheck(t *testing.T) {
	for c, want := range map[Control]TermCode{
		0xC140: {}, 0x8140: {}, 0x4141: {}, 0xC142: {}, 0x4143: {}, 0x4144: {}, 0x4145: {}, 0x4146: {}, 0x4147: {},
		0xC240: TermTaggedVersion, 0xC040: TermTaggedVersion, 0x4243: TermUntaggedVersion, 0x4043: TermUntaggedVersion,
		0xC100: TermRDMAPVersion, 0x4183: TermRDMAPVersion,
		0x4148: TermOpcode, 0x414F: TermOpcode, 0x4140: TermOpcode, 0xC143: TermOpcode, 0xC147: TermOpcode,
	} {
		if code, ok := c.Check(); code != want || ok != (want == TermCode{}) {
			t.Errorf("%#04x: %s, %t; want %s", uint16(c), code, ok, want)
		}
	}
}

// Protects lengths that are shorter than the header: no negative payload gets out.
func TestShortULPDU(t *testing.T) {
	b := make([]byte, ReadRequestSize)
	b[1] = 13
	if _, ok := ParseTagged(b); ok {
		t.Error("a tagged ULPDU of 13 bytes is accepted")
	}
	b[1] = 17
	if _, ok := ParseUntagged(b); ok {
		t.Error("an untagged ULPDU of 17 bytes is accepted")
	}
	for _, n := range []byte{45, 47} {
		b[1] = n
		if _, _, ok := ParseReadRequest(b); ok {
			t.Errorf("a Read Request of %d bytes is accepted", n)
		}
	}
}
