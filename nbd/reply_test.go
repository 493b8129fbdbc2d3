package nbd

import (
	"bytes"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Replies are encoded as proto.md and its extension have them, in each mode.
func TestReplies(t *testing.T) {
	read := &slot{cmd: cmdRead, cookie: 0x1122334455667788, offset: 0x1000, length: 512}
	write := &slot{cmd: cmdWrite, cookie: 0x1122334455667788, offset: 0x1000}
	failed := &slot{cmd: cmdWrite, cookie: 0x1122334455667788, offset: 0x1000, errno: ErrNoSpace}
	extents := []Extent{{Length: 0x3000}, {Length: 0x1000, Hole: true, Zero: true}}
	for _, tt := range []struct {
		name string
		put  func([]byte) int
		want string
	}{
		{"simple read", func(b []byte) int { return putRead(b, modeSimple, read, 0x1000, 512, true) },
			"67446698 00000000 1122334455667788"},
		{"structured read", func(b []byte) int { return putRead(b, modeStructured, read, 0x1000, 512, true) },
			"668e33ef 0001 0001 1122334455667788 00000208 0000000000001000"},
		{"structured part", func(b []byte) int { return putRead(b, modeStructured, read, 0x1100, 256, false) },
			"668e33ef 0000 0001 1122334455667788 00000108 0000000000001100"},
		{"extended part", func(b []byte) int { return putRead(b, modeExtended, read, 0x1100, 256, false) },
			"6e8a278c 0000 0001 1122334455667788 0000000000001000 0000000000000108 0000000000001100"},
		{"end of a read in chunks", func(b []byte) int { return putStatus(b, modeStructured, read) },
			"668e33ef 0001 0000 1122334455667788 00000000"},
		{"simple success", func(b []byte) int { return putStatus(b, modeSimple, write) },
			"67446698 00000000 1122334455667788"},
		{"structured success", func(b []byte) int { return putStatus(b, modeStructured, write) },
			"67446698 00000000 1122334455667788"},
		{"extended success", func(b []byte) int { return putStatus(b, modeExtended, write) },
			"6e8a278c 0001 0000 1122334455667788 0000000000001000 0000000000000000"},
		{"simple error", func(b []byte) int { return putStatus(b, modeSimple, failed) },
			"67446698 0000001c 1122334455667788"},
		{"structured error", func(b []byte) int { return putStatus(b, modeStructured, failed) },
			"668e33ef 0001 8001 1122334455667788 00000006 0000001c 0000"},
		{"extended error", func(b []byte) int { return putStatus(b, modeExtended, failed) },
			"6e8a278c 0001 8001 1122334455667788 0000000000001000 0000000000000006 0000001c 0000"},
		{"structured status", func(b []byte) int { return putExtents(b, modeStructured, read, extents) },
			"668e33ef 0001 0005 1122334455667788 00000014 00000001 00003000 00000000 00001000 00000003"},
		{"extended status", func(b []byte) int { return putExtents(b, modeExtended, read, extents) },
			"6e8a278c 0001 0006 1122334455667788 0000000000001000 0000000000000028 00000001 00000002" +
				"0000000000003000 0000000000000000 0000000000001000 0000000000000003"},
	} {
		b := bytes.Repeat([]byte{0xee}, maxReplyHeader)
		if got := b[:tt.put(b)]; !bytes.Equal(got, unhex(t, tt.want)) {
			t.Errorf("%s:\n got %x\nwant %x", tt.name, got, unhex(t, tt.want))
		}
	}
	b := make([]byte, maxReplyHeader)
	if n := putExtents(b, modeExtended, read, make([]Extent, maxExtents)); n != maxReplyHeader {
		t.Errorf("the longest reply has %d bytes, not %d", n, maxReplyHeader)
	}
}

// A device may report more than was asked; the client gets what the rules allow.
func TestClipExtents(t *testing.T) {
	for _, tt := range []struct {
		name       string
		in         []uint64
		length     uint64
		one, short bool
		want       []uint64
	}{
		{"as asked", []uint64{1, 2, 3}, 6, false, true, []uint64{1, 2, 3}},
		{"less", []uint64{1, 2}, 6, false, true, []uint64{1, 2}},
		{"more", []uint64{4, 4, 4}, 6, false, true, []uint64{4, 2}},
		{"one", []uint64{1, 2, 3}, 6, true, true, []uint64{1}},
		{"one that is longer", []uint64{10}, 6, true, true, []uint64{6}},
		{"none", nil, 6, false, true, nil},
		{"an empty one", []uint64{1, 0, 3}, 6, false, true, []uint64{1}},
		{"too long for 32 bits", []uint64{1 << 33, 1}, 1 << 34, false, true, []uint64{math.MaxUint32 - 65535}},
		{"64 bits", []uint64{1 << 33, 1}, 1 << 34, false, false, []uint64{1 << 33, 1}},
	} {
		var in []Extent
		for _, n := range tt.in {
			in = append(in, Extent{Length: n})
		}
		var got []uint64
		for _, e := range clipExtents(in, tt.length, tt.one, tt.short) {
			got = append(got, e.Length)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}
