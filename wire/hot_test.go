package wire_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"rbd/wire"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The descriptors have the bytes of the RDMA transport's figures, and come back from them.
func TestSGL(t *testing.T) {
	for _, c := range []struct {
		sgl  wire.SGL
		want string
		text string
	}{
		{wire.KeyedSGL(0x0102030405060708, 0x123456, 0xA1B2C3D4, false), "0807060504030201 563412 d4c3b2a1 40", "keyed addr=0x102030405060708 len=1193046 key=0xa1b2c3d4"},
		{wire.KeyedSGL(0x1000, wire.MaxKeyedLength, 1, true), "0010000000000000 ffffff 01000000 4f", "keyed addr=0x1000 len=16777215 key=0x00000001 invalidate"},
		{wire.OffsetSGL(0, 4096), "0000000000000000 00100000 000000 01", "in-capsule off=0 len=4096"},
		{wire.OffsetSGL(8, 0xFFFFFFFF), "0800000000000000 ffffffff 000000 01", "in-capsule off=8 len=4294967295"},
		{wire.NoDataSGL(), "0000000000000000 000000 00000000 40", "none"},
		{wire.SGL{Type: wire.SGLLastSegment, Key: 0x030201, Length: 16}, "0000000000000000 10000000 010203 30", "last segment/address addr=0x0 len=16"},
	} {
		b := c.sgl.Append(nil)
		if want := unhex(t, c.want); !bytes.Equal(b, want) {
			t.Errorf("%s is %x, want %x", c.text, b, want)
		}
		var again wire.SGL
		if err := again.Parse(b); err != nil || again != c.sgl {
			t.Errorf("%x parses to %+v, %v; want %+v", b, again, err, c.sgl)
		}
		if got := c.sgl.String(); got != c.text {
			t.Errorf("text is %q, want %q", got, c.text)
		}
	}
}

// Every field of the entries has a place of its own, at the offsets of the base specification.
func TestEntries(t *testing.T) {
	s := wire.SQE{
		Opcode: 0x01, Flags: 0x02, CID: 0x0403, NSID: 0x08070605, CDW2: 0x0C0B0A09, CDW3: 0x100F0E0D, Metadata: 0x1817161514131211,
		SGL:   wire.SGL{Addr: 0x201F1E1D1C1B1A19, Length: 0x232221, Key: 0x27262524, Type: 4, Subtype: 0xF},
		CDW10: 0x2C2B2A29, CDW11: 0x302F2E2D, CDW12: 0x34333231, CDW13: 0x38373635, CDW14: 0x3C3B3A39, CDW15: 0x403F3E3D,
	}
	want := make([]byte, wire.SQESize)
	for i := range want {
		want[i] = byte(i + 1)
	}
	want[39] = 0x4F
	if got := s.Append(nil); !bytes.Equal(got, want) {
		t.Errorf("SQE is\n%x, want\n%x", got, want)
	}
	var again wire.SQE
	if err := again.Parse(want); err != nil || again != s {
		t.Errorf("SQE parses to %+v, %v", again, err)
	}

	c := wire.CQE{Result: 0x0807060504030201, SQHD: 0x0A09, SQID: 0x0C0B, CID: 0x0E0D, Status: wire.StatusLBAOutOfRange.WithDNR()}
	if got, want := c.Append(nil), unhex(t, "0102030405060708 090a 0b0c 0d0e 0081"); !bytes.Equal(got, want) {
		t.Errorf("CQE is %x, want %x", got, want)
	}
	if c.DW0() != 0x04030201 {
		t.Errorf("DW0 is 0x%x", c.DW0())
	}
	c.Phase = true
	var back wire.CQE
	if err := back.Parse(c.Append(nil)); err != nil || back != c {
		t.Errorf("CQE parses to %+v, %v", back, err)
	}
}

// A command and its answer are parsed and built for every I/O: none of that may allocate, nor may a debug line that is not written.
func TestHotTypesDoNotAllocate(t *testing.T) {
	command := wire.RangeSQE(wire.IOWrite, 1, 8, 8)
	command.SGL = wire.KeyedSGL(1<<40, 4096, 7, true)
	capsule := command.Append(nil)
	response := (&wire.CQE{CID: 3}).Append(nil)
	buffer := make([]byte, 0, 256)
	var sqe wire.SQE
	var cqe wire.CQE
	var r wire.DSMRange
	var ok bool
	ranges := make([]byte, wire.DSMRangeSize)
	for name, f := range map[string]func(){
		"SQE": func() {
			ok = sqe.Parse(capsule) == nil && len(sqe.Append(buffer)) == wire.SQESize
			sqe.Put(capsule)
		},
		"CQE": func() {
			ok = cqe.Parse(response) == nil && len(cqe.Append(buffer)) == wire.CQESize
			cqe.Put(response)
		},
		"SGL":      func() { ok = sqe.SGL.Parse(capsule[24:40]) == nil && len(sqe.SGL.Append(buffer)) == wire.SGLSize },
		"DSMRange": func() { ok = r.Parse(ranges) == nil && len(r.Append(buffer)) == wire.DSMRangeSize },
		"build": func() {
			sqe = wire.RangeSQE(wire.IORead, 1, 1<<33, 256)
			sqe.SetFUA(true)
			sqe.SGL = wire.KeyedSGL(1<<40, 1<<20, 9, true)
			ok = sqe.Blocks() == 256
		},
		"status": func() { ok = errors.Is(wire.StatusSuccess.WithDNR().Err(), nil) },
		"debug line": func() {
			var line any = (*wire.IOSQE)(&sqe)
			if ok = line != nil; !ok {
				t.Log(line)
			}
		},
	} {
		ok = false
		if n := testing.AllocsPerRun(100, f); n != 0 || !ok {
			t.Errorf("%s: %v allocations per run, ok is %t", name, n, ok)
		}
	}
}
