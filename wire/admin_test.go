package wire_test

import (
	"bytes"
	"testing"
	"time"

	"rbd/wire"
)

// Offset and length of a log page come from the peer: whatever they are, the window must lie within the page.
func TestGetLogPageWindow(t *testing.T) {
	for _, c := range []struct {
		name string
		get  wire.GetLogPage
		size uint64
		n    uint64
		ok   bool
	}{
		{"whole", wire.NewGetLogPage(wire.LogSmart, wire.NSIDAll, 0, 512), 512, 512, true},
		{"part", wire.NewGetLogPage(wire.LogDiscovery, 0, 1024, 4), 3072, 4, true},
		{"over the end", wire.NewGetLogPage(wire.LogDiscovery, 0, 2048, 4096), 3072, 1024, true},
		{"at the end", wire.NewGetLogPage(wire.LogDiscovery, 0, 3072, 4), 3072, 0, true},
		{"behind the end", wire.NewGetLogPage(wire.LogDiscovery, 0, 3076, 4), 3072, 0, false},
		{"odd offset", wire.NewGetLogPage(wire.LogDiscovery, 0, 2, 4), 3072, 0, false},
		{"offset at 64 bits", wire.GetLogPage{LPO: 1<<64 - 4, NUMD: 3}, 3072, 0, false},
		{"length at 32 bits", wire.GetLogPage{LPO: 1024, NUMD: 1<<32 - 1}, 3072, 2048, true},
		{"offset is an index", wire.GetLogPage{OT: true}, 3072, 0, false},
	} {
		if n, ok := c.get.Window(c.size); n != c.n || ok != c.ok {
			t.Errorf("%s: window is %d, %t; want %d, %t", c.name, n, ok, c.n, c.ok)
		}
	}
	all := wire.GetLogPage{NSID: 1, LID: 0x70, LSP: 0x7F, RAE: true, NUMD: 0x12345678, LSI: 0xABCD, LPO: 0x0102030405060708, UUIDIndex: 0x7F, OT: true, CSI: 3}
	s := all.SQE()
	if got := wire.ParseGetLogPage(&s); got != all {
		t.Errorf("command is %+v, want %+v", got, all)
	}
	if s.CDW10 != 0x5678FF70 || s.CDW11 != 0xABCD1234 || s.CDW12 != 0x05060708 || s.CDW13 != 0x01020304 || s.CDW14 != 0x0380007F {
		t.Errorf("command dwords are %08x %08x %08x %08x %08x", s.CDW10, s.CDW11, s.CDW12, s.CDW13, s.CDW14)
	}
	if all.Bytes() != 0x48D159E4 || (wire.GetLogPage{NUMD: 1<<32 - 1}).Bytes() != 1<<34 {
		t.Errorf("lengths are 0x%x and 0x%x", all.Bytes(), (wire.GetLogPage{NUMD: 1<<32 - 1}).Bytes())
	}
}

// Values of features are packed as the base specification has them, and come back.
func TestFeatureValues(t *testing.T) {
	equal := func(name string, got, want uint32) {
		t.Helper()
		if got != want {
			t.Errorf("%s is 0x%08x, want 0x%08x", name, got, want)
		}
	}
	equal("number of queues", wire.QueuePairs(128).DW(), 0x007F007F)
	equal("number of queues", wire.NumberOfQueues{NSQ: 1, NCQ: 2}.DW(), 0x00020001)
	equal("number of queues again", wire.ParseNumberOfQueues(0x00020001).DW(), 0x00020001)
	if n := wire.ParseNumberOfQueues(0x00020001).Pairs(); n != 2 {
		t.Errorf("2 submission and 3 completion queues make %d pairs", n)
	}
	if n := wire.ParseNumberOfQueues(0xFFFFFFFF).Pairs(); n != 1<<16 {
		t.Errorf("most queues make %d pairs", n)
	}
	equal("arbitration", wire.Arbitration{AB: 7, LPW: 1, MPW: 2, HPW: 3}.DW(), 0x03020107)
	equal("arbitration again", wire.ParseArbitration(0x03020107).DW(), 0x03020107)
	equal("power", wire.PowerManagement{PS: 0x1F, WH: 2}.DW(), 0x5F)
	equal("power again", wire.ParsePowerManagement(0x5F).DW(), 0x5F)
	equal("temperature", wire.TemperatureThreshold{TMPTH: 0x0157, TMPSEL: 0xF, THSEL: 1}.DW(), 0x001F0157)
	equal("temperature again", wire.ParseTemperatureThreshold(0x001F0157).DW(), 0x001F0157)
	equal("error recovery", wire.ErrorRecovery{TLER: 5, DULBE: true}.DW(), 0x00010005)
	equal("error recovery again", wire.ParseErrorRecovery(0x00010005).DW(), 0x00010005)

	set := wire.SetFeatures{FID: wire.FeatureNumberOfQueues, Save: true, NSID: 1, CDW11: 2, CDW12: 3, CDW13: 4, UUIDIndex: 5, CDW15: 6}
	s := set.SQE()
	if got := wire.ParseSetFeatures(&s); got != set || s.CDW10 != 0x80000007 {
		t.Errorf("set features is %+v with dword 10 0x%x", got, s.CDW10)
	}
	get := wire.GetFeatures{FID: wire.FeatureKeepAlive, Select: wire.SelectSupported, NSID: 1, CDW11: 2, UUIDIndex: 5}
	s = get.SQE()
	if got := wire.ParseGetFeatures(&s); got != get || s.CDW10 != 0x30F {
		t.Errorf("get features is %+v with dword 10 0x%x", got, s.CDW10)
	}
	abort := wire.Abort{SQID: 1, CID: 0x1002}
	s = abort.SQE()
	if got := wire.ParseAbort(&s); got != abort || s.CDW10 != 0x10020001 {
		t.Errorf("abort is %+v with dword 10 0x%x", got, s.CDW10)
	}
	identify := wire.Identify{CNS: wire.CNSCSIController, NSID: 1, CNTID: 2, CSI: 3, CNSSI: 4, UUIDIndex: 5}
	s = identify.SQE()
	if got := wire.ParseIdentify(&s); got != identify || s.CDW10 != 0x00020006 || s.CDW11 != 0x03000004 {
		t.Errorf("identify is %+v with dwords 0x%x 0x%x", got, s.CDW10, s.CDW11)
	}
}

func TestTimestamp(t *testing.T) {
	moment := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	stamp := wire.Timestamp{Milliseconds: uint64(moment.UnixMilli()), Attributes: 2}
	b := stamp.Append(nil)
	var again wire.Timestamp
	if err := again.Parse(b); err != nil || again != stamp || !again.Time().Equal(moment) {
		t.Errorf("%x is %+v, %v", b, again, err)
	}
}

// Events have the dwords that the Linux host knows.
func TestAsyncEvents(t *testing.T) {
	for _, c := range []struct {
		event wire.AsyncEvent
		dw0   uint32
		text  string
	}{
		{wire.NamespaceChanged(), 0x00040002, "namespace attribute changed"},
		{wire.ANAChanged(), 0x000C0302, "asymmetric namespace access changed"},
		{wire.DiscoveryChanged(), 0x0070F002, "discovery log page changed"},
		{wire.AsyncEvent{Type: wire.AsyncSmart, Info: 1, LID: wire.LogSmart}, 0x00020101, "smart event, info 0x01, smart log page"},
	} {
		if c.event.DW0() != c.dw0 || wire.ParseAsyncEvent(c.dw0) != c.event || c.event.String() != c.text {
			t.Errorf("%q is 0x%08x, want %q 0x%08x", c.event, c.event.DW0(), c.text, c.dw0)
		}
	}
}

// The list of identifiers is walked by lengths that the peer sent.
func TestNSDescriptors(t *testing.T) {
	d := wire.NSDescriptors{EUI64: [8]byte{1}, NGUID: wire.UUID{2}, UUID: wire.UUID{3}, HasCSI: true, CSI: 1}
	b := d.Append(nil)
	var again wire.NSDescriptors
	if err := again.Parse(b); err != nil || again != d {
		t.Errorf("list is %+v, %v; want %+v", again, err, d)
	}
	unknown := make([]byte, wire.IdentifySize)
	copy(unknown, []byte{9, 2, 0, 0, 7, 7, 4, 1, 0, 0, 1})
	if err := again.Parse(unknown); err != nil || again != (wire.NSDescriptors{HasCSI: true, CSI: 1}) {
		t.Errorf("behind an unknown type there is %+v, %v", again, err)
	}
	for name, head := range map[string][]byte{"short uuid": {3, 15}, "long csi": {4, 2}, "short eui64": {1, 7}} {
		if err := again.Parse(append(head, make([]byte, wire.IdentifySize-2)...)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	full := bytes.Repeat([]byte{9, 251, 0, 0}, wire.IdentifySize/4) // 16 descriptors of 255 bytes, then one that runs over the end
	for i := 0; i+255 <= len(full); i += 255 {
		copy(full[i:], []byte{9, 251})
	}
	copy(full[16*255:], []byte{9, 16})
	if err := again.Parse(full); err == nil {
		t.Error("a descriptor over the end: no error")
	}
}

func TestNSList(t *testing.T) {
	list := make(wire.NSList, wire.MaxNSList+1)
	for i := range list {
		list[i] = uint32(i + 1)
	}
	var again wire.NSList
	if err := again.Parse(list.Append(nil)); err != nil || len(again) != wire.MaxNSList || again[1023] != 1024 {
		t.Errorf("a list that is too long comes back with %d entries, %v", len(again), err)
	}
	if err := again.Parse(wire.NSList{5, 7}.Append(nil)); err != nil || len(again) != 2 || again[0] != 5 || again[1] != 7 {
		t.Errorf("5 and 7 come back as %v, %v", again, err)
	}
}

// The counts of the ANA log page decide about allocations: one that the page can't hold must be refused.
func TestANALog(t *testing.T) {
	a := wire.ANALog{ChangeCount: 9, Groups: []wire.ANAGroup{{ID: 1, ChangeCount: 2, State: wire.ANAOptimized, NSIDs: []uint32{1, 3}}, {ID: 2, State: wire.ANAChange}}}
	b := a.Append(nil)
	if len(b) != 16+32+8+32 {
		t.Errorf("page has %d bytes", len(b))
	}
	var again wire.ANALog
	for n := range b {
		if err := again.Parse(b[:n]); err == nil {
			t.Errorf("%d of %d bytes are accepted", n, len(b))
		}
	}
	if err := again.Parse(b); err != nil || len(again.Groups) != 2 || len(again.Groups[0].NSIDs) != 2 || again.Groups[1].State != wire.ANAChange {
		t.Errorf("page is %+v, %v", again, err)
	}
	copy(b[20:], []byte{0xFF, 0xFF, 0xFF, 0xFF})
	if err := again.Parse(b); err == nil {
		t.Error("2^32-1 namespaces are accepted")
	}
}

// A block size that a shift would overflow, or that the standard doesn't have, is no size.
func TestBlockSize(t *testing.T) {
	for lbads, want := range map[uint8]uint32{0: 0, 8: 0, 9: 512, 12: 4096, 31: 1 << 31, 32: 0, 255: 0} {
		n := wire.IdentifyNamespace{FLBAS: 0x12, NLBAF: 2}
		n.LBAF[2].LBADS = lbads
		if got := n.BlockSize(); got != want {
			t.Errorf("LBADS %d is a block of %d bytes, want %d", lbads, got, want)
		}
	}
	n := wire.IdentifyNamespace{FLBAS: 0x6F, NLBAF: 63}
	n.LBAF[63].LBADS = 9
	if n.BlockSize() != 512 {
		t.Error("the upper bits of the format's index are not used")
	}
}

func TestErrorLogEntry(t *testing.T) {
	var e wire.ErrorLogEntry
	e.SetStatus(wire.StatusLBAOutOfRange.WithDNR())
	if b := e.Append(nil); b[12] != 0x00 || b[13] != 0x81 || e.Status() != wire.StatusLBAOutOfRange.WithDNR() {
		t.Errorf("status field is %x, status %s", b[12:14], e.Status())
	}
}

// Power states lie at the end of Identify Controller, 32 bytes each.
func TestPowerStates(t *testing.T) {
	var c, again wire.IdentifyController
	c.PSD[31] = wire.PowerState{
		MaxPower: 0x0201, Flags: 0x04, EntryLatency: 0x08070605, ExitLatency: 0x0C0B0A09, ReadThroughput: 0x0D, ReadLatency: 0x0E, WriteThroughput: 0x0F,
		WriteLatency: 0x10, IdlePower: 0x1211, IdlePowerScale: 0x13, ActivePower: 0x1615, ActivePowerWorkScl: 0x17,
	}
	b := c.Append(nil)
	want := unhex(t, "0102 00 04 05060708 090a0b0c 0d0e0f10 1112 13 00 1516 17 000000000000000000")
	if got := b[2048+31*32:][:32]; !bytes.Equal(got, want) {
		t.Errorf("power state 31 is\n%x, want\n%x", got, want)
	}
	if err := again.Parse(b); err != nil || again != c {
		t.Errorf("power state 31 comes back as %+v, %v", again.PSD[31], err)
	}
}
