package wire_test

import (
	"bytes"
	"testing"
	"time"

	"rbd/wire"
)

// The Fabrics commands have the bytes of the recordings.
func TestFabricsCommands(t *testing.T) {
	const none = "00000000000000000000000000000000" + "00000000000000000000000000000040" // bytes 8 to 39
	for name, c := range map[string]struct {
		sqe  wire.SQE
		want string
	}{
		"connect": {
			wire.Connect{QID: 1, SQSize: 127, CAttr: wire.ConnectDisableSQFlow, KATO: 5000}.SQE(),
			"7f400000 01000000" + none + "00000100 7f000400 88130000 000000000000000000000000",
		},
		"property get": {
			wire.NewPropertyGet(wire.PropertyCAP).SQE(),
			"7f400000 04000000" + none + "01000000 00000000 00000000 000000000000000000000000",
		},
		"property get of 4 bytes": {
			wire.NewPropertyGet(wire.PropertyCSTS).SQE(),
			"7f400000 04000000" + none + "00000000 1c000000 00000000 000000000000000000000000",
		},
		"property set": {
			wire.NewPropertySet(wire.PropertyCC, 0x460061).SQE(),
			"7f400000 00000000" + none + "00000000 14000000 61004600 000000000000000000000000",
		},
		"disconnect": {
			wire.DisconnectSQE(),
			"7f400000 08000000" + none + "00000000 00000000 00000000 000000000000000000000000",
		},
	} {
		if got, want := c.sqe.Append(nil), unhex(t, c.want); !bytes.Equal(got, want) {
			t.Errorf("%s is\n%x, want\n%x", name, got, want)
		}
	}
	s := wire.DisconnectSQE()
	s.CDW10 = 0xFFFF0001
	if got := wire.DisconnectRecFmt(&s); got != 1 {
		t.Errorf("record format of disconnect is %d", got)
	}
	set := wire.PropertySet{Size: wire.PropertySize8, Offset: 0x28, Value: 1<<40 | 5}
	again := set.SQE()
	if got := wire.ParsePropertySet(&again); got != set {
		t.Errorf("property set is %+v, want %+v", got, set)
	}
}

// Dword 0 of the answers, as the kernel's target makes them.
func TestConnectAnswers(t *testing.T) {
	for dw0, want := range map[uint32]wire.ConnectResult{
		0x00000001: {CNTLID: 1},
		0x00020001: {CNTLID: 1, ATR: true},
		0x0004FFEF: {CNTLID: 0xFFEF, ASCR: true},
	} {
		if got := wire.ParseConnectResult(dw0); got != want || got.DW0() != dw0 {
			t.Errorf("0x%08x is %+v, and back 0x%08x", dw0, got, got.DW0())
		}
	}
	for dw0, want := range map[uint32]string{
		0x00010000: "host identifier in the connect data",
		0x00010010: "controller identifier in the connect data",
		0x00010100: "subsystem NQN in the connect data",
		0x00010200: "host NQN in the connect data",
		0x00010004: "byte 4 in the connect data",
		40:         "record format in the connect command",
		42:         "queue identifier in the connect command",
		44:         "submission queue size in the connect command",
		46:         "connect attributes in the connect command",
		48:         "keep alive timeout in the connect command",
		0:          "byte 0 in the connect command",
	} {
		p := wire.ParseInvalidParameter(dw0)
		if p.String() != want || p.DW0() != dw0 {
			t.Errorf("0x%08x is %q, and back 0x%08x; want %q", dw0, p, p.DW0(), want)
		}
	}
}

// The properties' fields are where the base specification has them.
func TestRegisters(t *testing.T) {
	c := wire.MakeCAP(127, 15, wire.CAPCSSNVM|wire.CAPCSSIOCS)
	if c != 0x0000_0820_0F01_007F {
		t.Errorf("CAP is 0x%016x", uint64(c))
	}
	if c.MQES() != 127 || !c.CQR() || c.TO() != 15 || c.Timeout() != 7500*time.Millisecond || c.CSS() != 0x41 || c.NSSRS() {
		t.Errorf("CAP 0x%x has MQES %d CQR %t TO %d (%s) CSS 0x%x NSSRS %t", uint64(c), c.MQES(), c.CQR(), c.TO(), c.Timeout(), c.CSS(), c.NSSRS())
	}
	if c := wire.MakeCAP(0, 255, wire.CAPCSSNoIOC); c.CSS() != wire.CAPCSSNoIOC || c.TO() != 255 || c.MPSMIN() != 0 {
		t.Errorf("CAP of an admin controller is 0x%016x", uint64(c))
	}
	c = 1<<36 | 3<<48 | 5<<52 | 2<<59
	if !c.NSSRS() || c.MPSMIN() != 3 || c.MPSMAX() != 5 || c.CRMS() != 2 || c.CSS() != 0 {
		t.Errorf("CAP 0x%x has NSSRS %t MPSMIN %d MPSMAX %d CRMS %d", uint64(c), c.NSSRS(), c.MPSMIN(), c.MPSMAX(), c.CRMS())
	}

	cc := wire.MakeCC(wire.CCCSSAll)
	if cc != 0x460060 || cc.WithEN(true) != 0x460061 || cc.WithEN(true).WithEN(false) != cc {
		t.Errorf("CC is 0x%x, enabled 0x%x", uint32(cc), uint32(cc.WithEN(true)))
	}
	cc = cc.WithEN(true).WithSHN(wire.ShutdownNormal)
	if cc != 0x464061 || !cc.EN() || cc.SHN() != wire.ShutdownNormal || cc.CSS() != 6 || cc.IOSQES() != 6 || cc.IOCQES() != 4 || cc.CRIME() {
		t.Errorf("CC of a shutdown is 0x%x", uint32(cc))
	}
	if cc = 5<<7 | 3<<11 | 1<<24; cc.MPS() != 5 || cc.AMS() != 3 || !cc.CRIME() || cc.WithSHN(wire.ShutdownAbrupt).WithSHN(wire.ShutdownNone) != cc {
		t.Errorf("CC 0x%x has MPS %d AMS %d CRIME %t", uint32(cc), cc.MPS(), cc.AMS(), cc.CRIME())
	}

	csts := wire.CSTSRDY.WithSHST(wire.ShutdownComplete) | wire.CSTSCFS
	if csts != 0xB || !csts.RDY() || !csts.CFS() || csts.SHST() != wire.ShutdownComplete {
		t.Errorf("CSTS is 0x%x", uint32(csts))
	}
	if v := wire.MakeVersion(1, 4, 0); v != 0x10400 || v.String() != "1.4.0" {
		t.Errorf("version 1.4 is 0x%x, %s", uint32(v), v)
	}
	for p, want := range map[wire.Property]int{wire.PropertyCAP: 8, wire.PropertyVS: 4, wire.PropertyCC: 4, wire.PropertyCSTS: 4, 0x10: 0} {
		if p.Size() != want {
			t.Errorf("%s has %d bytes, want %d", p, p.Size(), want)
		}
	}
	if wire.PropertySize4.Bytes() != 4 || wire.PropertySize8.Bytes() != 8 || wire.PropertySize(2).Bytes() != 0 {
		t.Error("property sizes are wrong")
	}
}
