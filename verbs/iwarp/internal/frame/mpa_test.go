package frame

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func parseMPA(b []byte, reply bool) (*MPA, error) {
	m, err := ParseMPA(b, reply)
	if err != nil {
		return m, err
	}
	m.ParsePrivate(b[MPAHeaderSize : MPAHeaderSize+m.PrivateSize()])
	return m, nil
}

// Protects the layout of the frames, with the one that Linux sends first.
func TestMPAGolden(t *testing.T) {
	for name, tt := range map[string]struct {
		bytes string
		frame MPA
	}{
		"Linux request": {"4d504120494420526571204672616d65 10 02 0024 0080 0000 0000000020001f00" + zeros(24),
			MPA{Revision: 2, Enhanced: true, IRD: 128, Private: append([]byte{0, 0, 0, 0, 0x20, 0, 0x1f, 0}, make([]byte, 24)...)}},
		"accepting reply": {"4d504120494420526570204672616d65 10 02 0004 0000 0080", MPA{Reply: true, Revision: 2, Enhanced: true, ORD: 128, Private: []byte{}}},
		"peer to peer, all flags": {"4d504120494420526570204672616d65 f0 02 0005 c001 ffff 07",
			MPA{Reply: true, Markers: true, CRC: true, Reject: true, Enhanced: true, Revision: 2, IRD: 1, ORD: NoNegotiation,
				P2P: true, RTRSend: true, RTRWrite: true, RTRRead: true, Private: []byte{7}}},
		"revision 1": {"4d504120494420526571204672616d65 40 01 0002 abcd", MPA{CRC: true, Revision: 1, Private: []byte{0xab, 0xcd}}},
	} {
		b := unhex(t, tt.bytes)
		if got := tt.frame.Append(nil); !bytes.Equal(got, b) {
			t.Errorf("%s:\n got %x\nwant %x", name, got, b)
		}
		got, err := parseMPA(b, tt.frame.Reply)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(&tt.frame, got, cmpopts.IgnoreUnexported(MPA{})); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func zeros(n int) string { return string(bytes.Repeat([]byte("00"), n)) }

// Protects from frames that can't be accepted.
func TestMPAInvalid(t *testing.T) {
	ok := (&MPA{Revision: 2, Enhanced: true}).Append(nil)
	for name, tt := range map[string]struct {
		change func(b []byte)
		want   error
	}{
		"wrong key":             {func(b []byte) { b[3] = 'X' }, ErrNotMPA},
		"the other key":         {func(b []byte) { copy(b, replyKey) }, ErrNotMPA},
		"HTTP":                  {func(b []byte) { copy(b, "HTTP/1.1 400 Bad Request") }, ErrNotMPA},
		"revision 3":            {func(b []byte) { b[17] = 3 }, ErrMPA},
		"too much private data": {func(b []byte) { b[18], b[19] = 2, 1 }, ErrMPA},
		"no words":              {func(b []byte) { b[19] = 3 }, ErrMPA},
	} {
		b := bytes.Clone(ok)
		tt.change(b)
		if _, err := ParseMPA(b[:MPAHeaderSize], false); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	if _, err := ParseMPA(ok[:MPAHeaderSize-1], false); !errors.Is(err, ErrNotMPA) {
		t.Errorf("short: %v", err)
	}
}
