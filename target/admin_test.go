package target

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"rbd/target/backend"
	"rbd/wire"
)

// TestProperties protects the properties, and each transition that CC makes.
func TestProperties(t *testing.T) {
	e := newEnv(t)
	e.addRAM(1 << 20)
	q, _ := e.admin(testNQN)
	if v := wire.CAP(q.property(wire.PropertyCAP)); v.MQES() != 127 || v.CSS() != wire.CAPCSSNVM || v.TO() != 15 || !v.CQR() {
		t.Errorf("CAP 0x%x", uint64(v))
	}
	if v := wire.Version(q.property(wire.PropertyVS)); v.String() != "1.4.0" {
		t.Errorf("VS %s", v)
	}
	enabled := wire.MakeCC(0).WithEN(true)
	if v := wire.CC(q.property(wire.PropertyCC)); v != enabled {
		t.Errorf("CC 0x%x", v)
	}
	for name, sqe := range map[string]wire.SQE{
		"get CAP in 4":  wire.PropertyGet{Size: wire.PropertySize4, Offset: wire.PropertyCAP}.SQE(),
		"get VS in 8":   wire.PropertyGet{Size: wire.PropertySize8, Offset: wire.PropertyVS}.SQE(),
		"reserved size": wire.PropertyGet{Size: 7, Offset: wire.PropertyVS}.SQE(),
		"NSSR":          wire.NewPropertyGet(wire.PropertyNSSR).SQE(),
		"INTMS":         wire.PropertyGet{Offset: 0x0C}.SQE(),
		"set CSTS":      wire.NewPropertySet(wire.PropertyCSTS, 0).SQE(),
		"set CC in 8":   wire.PropertySet{Size: wire.PropertySize8, Offset: wire.PropertyCC}.SQE(),
	} {
		if cqe := q.do(sqe); cqe.Status != statusInvalidField|wire.StatusMore {
			t.Errorf("%s: %v", name, cqe.Status)
		}
	}
	const failed = uint64(wire.CSTSCFS)
	for _, step := range []struct {
		name string
		cc   wire.CC
		csts uint64
	}{
		{"shutdown", enabled.WithSHN(wire.ShutdownNormal), 8},
		{"reset after shutdown", wire.MakeCC(0), 0},
		{"enable", enabled, 1},
		{"abrupt shutdown", enabled.WithSHN(wire.ShutdownAbrupt), 8},
		{"notification taken back", enabled, 0},
		{"reset", wire.MakeCC(0), 0},
		{"all command sets", wire.MakeCC(wire.CCCSSAll).WithEN(true), 1},
		{"reset", wire.MakeCC(0), 0},
		{"wrong entry size", wire.CC(0x450001), failed},
		{"reset", wire.MakeCC(0), 0},
		{"wrong page size", enabled | 1<<7, failed},
		{"reset", wire.MakeCC(0), 0},
		{"wrong arbitration", enabled | 1<<11, failed},
		{"reset", wire.MakeCC(0), 0},
		{"wrong command set", wire.MakeCC(3).WithEN(true), failed},
		{"reset", wire.MakeCC(0), 0},
		{"enable again", enabled, 1},
	} {
		q.setCC(step.cc)
		if csts := q.property(wire.PropertyCSTS); csts != step.csts {
			t.Fatalf("%s: CSTS 0x%x, want 0x%x", step.name, csts, step.csts)
		}
	}
}

// get executes a command with n bytes of data for the host.
func (q *hostQueue) get(sqe wire.SQE, n int) ([]byte, wire.CQE) {
	q.t.Helper()
	for i := range q.data(n) {
		q.data(n)[i] = 0xEE
	}
	sqe.SGL = q.keyed(n)
	cqe := q.do(sqe)
	return q.data(n), cqe
}

// TestIdentify protects what hosts decide by when they look at a controller and its
// namespaces.
func TestIdentify(t *testing.T) {
	e := newEnv(t)
	e.addRAM(1 << 20)
	ram, err := backend.NewRAM(8<<20, 4096)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.target.AddNamespace(Export{NQN: testNQN, NSID: 5, Backend: backend.ReadOnly(ram)}); err != nil {
		t.Fatal(err)
	}
	q, cntlid := e.admin(testNQN)
	identify := func(id wire.Identify) []byte {
		t.Helper()
		b, cqe := q.get(id.SQE(), wire.IdentifySize)
		if !cqe.Status.OK() {
			t.Fatalf("%+v: %v", id, cqe.Status)
		}
		return b
	}
	var c wire.IdentifyController
	if err := c.Parse(identify(wire.Identify{CNS: wire.CNSController})); err != nil {
		t.Fatal(err)
	}
	if c.CNTLID != cntlid || c.KAS == 0 || c.SGLS != 0x100005 || c.ICDOFF != 0 || c.IOCCSZ != (64+8192)/16 || c.IORCSZ != 1 ||
		c.MAXCMD != 128 || c.SubNQN.String() != testNQN || c.CMIC&2 == 0 || c.CNTRLTYPE != wire.ControllerIO || c.MDTS != 8 ||
		c.VER.String() != "1.4.0" || c.OAES != 1<<8 || c.NN != 1024 || c.ONCS != 0xD || c.VWC&1 == 0 || c.ACL != 3 || c.AERL != 3 || c.SQES != 0x66 || c.CQES != 0x44 {
		t.Errorf("%+v", c)
	}
	if sn := wire.Text(c.SN[:]); len(sn) != 20 {
		t.Errorf("serial number %q", sn)
	}
	var list wire.NSList
	if err := list.Parse(identify(wire.Identify{CNS: wire.CNSActiveNamespaces})); err != nil || len(list) != 2 || list[0] != 1 || list[1] != 5 {
		t.Errorf("namespaces %v, %v", list, err)
	}
	if err := list.Parse(identify(wire.Identify{CNS: wire.CNSActiveNamespaces, NSID: 1})); err != nil || len(list) != 1 || list[0] != 5 {
		t.Errorf("namespaces behind 1: %v, %v", list, err)
	}
	var n wire.IdentifyNamespace
	if err := n.Parse(identify(wire.Identify{CNS: wire.CNSNamespace, NSID: 1})); err != nil {
		t.Fatal(err)
	}
	if n.NSZE != 2048 || n.NCAP != 2048 || n.BlockSize() != 512 || n.DLFEAT != 9 || n.NSATTR != 0 || n.NPWG != 7 || n.NMIC&1 == 0 {
		t.Errorf("%+v", n)
	}
	if err := n.Parse(identify(wire.Identify{CNS: wire.CNSNamespace, NSID: 5})); err != nil || n.NSZE != 2048 || n.BlockSize() != 4096 || n.NSATTR != wire.NSATTRWriteProtected {
		t.Errorf("%+v, %v", n, err)
	}
	if b := identify(wire.Identify{CNS: wire.CNSNamespace, NSID: 1024}); !bytes.Equal(b, make([]byte, 4096)) {
		t.Error("an inactive namespace is not zeros")
	}
	var d1, d5 wire.NSDescriptors
	if err := d1.Parse(identify(wire.Identify{CNS: wire.CNSNamespaceDescriptors, NSID: 1})); err != nil {
		t.Fatal(err)
	}
	if err := d5.Parse(identify(wire.Identify{CNS: wire.CNSNamespaceDescriptors, NSID: 5})); err != nil {
		t.Fatal(err)
	}
	if d1.UUID.IsZero() || d1.UUID == d5.UUID || d1.NGUID == d5.NGUID || !d1.HasCSI || d1.UUID != namespaceUUID(testNQN, 1) {
		t.Errorf("%+v and %+v", d1, d5)
	}
	var i wire.IdentifyIndependentNamespace
	if err := i.Parse(identify(wire.Identify{CNS: wire.CNSIndependentNamespace, NSID: 5})); err != nil || i.NSTAT != 1 || i.NSATTR != 1 {
		t.Errorf("%+v, %v", i, err)
	}
	identify(wire.Identify{CNS: wire.CNSCSIController})
	identify(wire.Identify{CNS: wire.CNSCSINamespace, NSID: 1})
	for _, c := range []struct {
		id   wire.Identify
		want wire.Status
	}{
		{wire.Identify{CNS: wire.CNSNamespace, NSID: 0}, statusInvalidNamespace},
		{wire.Identify{CNS: wire.CNSNamespace, NSID: 1025}, statusInvalidNamespace},
		{wire.Identify{CNS: wire.CNSNamespace, NSID: wire.NSIDAll}, statusInvalidNamespace},
		{wire.Identify{CNS: wire.CNSNamespaceDescriptors, NSID: 2}, statusInvalidNamespace},
		{wire.Identify{CNS: wire.CNSIndependentNamespace, NSID: wire.NSIDAll}, statusInvalidNamespace},
		{wire.Identify{CNS: wire.CNSActiveNamespaces, NSID: wire.NSIDAll - 1}, statusInvalidNamespace},
		{wire.Identify{CNS: wire.CNSCSIController, CSI: 2}, statusInvalidField},
		{wire.Identify{CNS: wire.CNSCSINamespace, CSI: 2, NSID: 1}, statusInvalidField},
		{wire.Identify{CNS: wire.CNSCommandSets}, statusInvalidField},
		{wire.Identify{CNS: 0xFF}, statusInvalidField},
	} {
		if b, cqe := q.get(c.id.SQE(), wire.IdentifySize); cqe.Status != c.want|wire.StatusMore || b[0] != 0xEE {
			t.Errorf("%+v: %v, want %v", c.id, cqe.Status, c.want)
		}
	}
}

// TestFeatures protects the features, and the errors for those that are not there.
func TestFeatures(t *testing.T) {
	e := newEnv(t, withConfig(func(c *Config) { c.IOQueues = 4 }))
	e.addRAM(1 << 20)
	q, cntlid := e.admin(testNQN)
	const bad = statusInvalidField | wire.StatusMore
	for _, c := range []struct {
		name   string
		sqe    wire.SQE
		status wire.Status
		result uint32
	}{
		{"queues: more", wire.SetFeatures{FID: wire.FeatureNumberOfQueues, CDW11: wire.QueuePairs(128).DW()}.SQE(), 0, 0x00030003},
		{"queues: fewer", wire.SetFeatures{FID: wire.FeatureNumberOfQueues, CDW11: wire.QueuePairs(1).DW()}.SQE(), 0, 0},
		{"queues: two", wire.SetFeatures{FID: wire.FeatureNumberOfQueues, CDW11: wire.QueuePairs(2).DW()}.SQE(), 0, 0x00010001},
		{"queues: all bits", wire.SetFeatures{FID: wire.FeatureNumberOfQueues, CDW11: 0xFFFFFFFF}.SQE(), bad, 0},
		{"get queues", wire.GetFeatures{FID: wire.FeatureNumberOfQueues}.SQE(), 0, 0x00010001},
		{"events", wire.SetFeatures{FID: wire.FeatureAsyncEvents, CDW11: 0x100}.SQE(), 0, 0x100},
		{"unknown events", wire.SetFeatures{FID: wire.FeatureAsyncEvents, CDW11: 0x900}.SQE(), bad, 0},
		{"get events", wire.GetFeatures{FID: wire.FeatureAsyncEvents}.SQE(), 0, 0x100},
		{"keep alive", wire.SetFeatures{FID: wire.FeatureKeepAlive, CDW11: 7001}.SQE(), 0, 0},
		{"get keep alive", wire.GetFeatures{FID: wire.FeatureKeepAlive}.SQE(), 0, 8000},
		{"keep alive off", wire.SetFeatures{FID: wire.FeatureKeepAlive}.SQE(), 0, 0},
		{"keep alive when off", wire.KeepAliveSQE(), wire.StatusKeepAliveTimeoutInvalid | wire.StatusMore, 0},
		{"cache is on", wire.GetFeatures{FID: wire.FeatureVolatileWriteCache}.SQE(), 0, 1},
		{"cache off", wire.SetFeatures{FID: wire.FeatureVolatileWriteCache}.SQE(), 0, 0},
		{"cache is off", wire.GetFeatures{FID: wire.FeatureVolatileWriteCache}.SQE(), 0, 0},
		{"arbitration", wire.SetFeatures{FID: wire.FeatureArbitration, CDW11: 7}.SQE(), 0, 0},
		{"get arbitration", wire.GetFeatures{FID: wire.FeatureArbitration}.SQE(), 0, 7},
		{"power", wire.SetFeatures{FID: wire.FeaturePowerManagement}.SQE(), 0, 0},
		{"power state 1", wire.SetFeatures{FID: wire.FeaturePowerManagement, CDW11: 1}.SQE(), bad, 0},
		{"get power", wire.GetFeatures{FID: wire.FeaturePowerManagement}.SQE(), 0, 0},
		{"temperature", wire.SetFeatures{FID: wire.FeatureTemperature, CDW11: 300}.SQE(), 0, 0},
		{"get temperature", wire.GetFeatures{FID: wire.FeatureTemperature}.SQE(), 0, 300},
		{"get under temperature", wire.GetFeatures{FID: wire.FeatureTemperature, CDW11: 1 << 20}.SQE(), 0, 0},
		{"get sensor", wire.GetFeatures{FID: wire.FeatureTemperature, CDW11: 3 << 16}.SQE(), bad, 0},
		{"error recovery", wire.SetFeatures{FID: wire.FeatureErrorRecovery, CDW11: 5}.SQE(), 0, 0},
		{"deallocated error", wire.SetFeatures{FID: wire.FeatureErrorRecovery, CDW11: 1 << 16}.SQE(), bad, 0},
		{"get error recovery", wire.GetFeatures{FID: wire.FeatureErrorRecovery}.SQE(), 0, 5},
		{"atomicity", wire.SetFeatures{FID: wire.FeatureWriteAtomicity, CDW11: 1}.SQE(), 0, 0},
		{"get atomicity", wire.GetFeatures{FID: wire.FeatureWriteAtomicity}.SQE(), 0, 1},
		{"host identifier is set", wire.SetFeatures{FID: wire.FeatureHostID}.SQE(), statusSequenceError | wire.StatusMore, 0},
		{"saved", wire.SetFeatures{FID: wire.FeatureArbitration, Save: true}.SQE(), wire.StatusFeatureNotSaveable | wire.StatusDNR | wire.StatusMore, 0},
		{"default", wire.GetFeatures{FID: wire.FeatureArbitration, Select: wire.SelectDefault}.SQE(), bad, 0},
		{"timestamp", wire.SetFeatures{FID: wire.FeatureTimestamp}.SQE(), bad, 0},
		{"unknown", wire.GetFeatures{FID: 0xC0}.SQE(), bad, 0},
	} {
		if cqe := q.do(c.sqe); cqe.Status != c.status || cqe.DW0() != c.result {
			t.Errorf("%s: %v, 0x%x; want %v, 0x%x", c.name, cqe.Status, cqe.DW0(), c.status, c.result)
		}
	}
	id := wire.GetFeatures{FID: wire.FeatureHostID, CDW11: 1}.SQE()
	host := connectData(0).HostID
	if b, cqe := q.get(id, 16); !cqe.Status.OK() || !bytes.Equal(b, host[:]) {
		t.Errorf("host identifier %x, %v", b, cqe.Status)
	}
	if _, cqe := q.get(wire.GetFeatures{FID: wire.FeatureHostID}.SQE(), 16); cqe.Status != bad {
		t.Errorf("64-bit host identifier: %v", cqe.Status)
	}
	e.io(cntlid, 1, 16)
	if cqe := q.do(wire.SetFeatures{FID: wire.FeatureNumberOfQueues}.SQE()); cqe.Status.Code() != wire.StatusCommandSequenceError {
		t.Errorf("number of queues with a queue: %v", cqe.Status)
	}
}

// TestLogPages protects the pages, their windows, and the counters in them.
func TestLogPages(t *testing.T) {
	e := newEnv(t)
	e.addRAM(1 << 20)
	q, cntlid := e.admin(testNQN)
	io := e.io(cntlid, 1, 16)
	for range 3 {
		io.must(io.rangeCmd(wire.IOWrite, 0, 2000))
	}
	io.must(io.rangeCmd(wire.IORead, 0, 1))
	io.do(io.rangeCmd(wire.IORead, 99999999, 1))
	page := func(lid wire.LogID, nsid uint32, off uint64, n uint32) []byte {
		t.Helper()
		b, cqe := q.get(wire.NewGetLogPage(lid, nsid, off, n).SQE(), int(n))
		if !cqe.Status.OK() {
			t.Fatalf("%s: %v", lid, cqe.Status)
		}
		return b
	}
	for _, nsid := range []uint32{wire.NSIDAll, 0, 1} {
		var smart wire.SmartLog
		if err := smart.Parse(page(wire.LogSmart, nsid, 0, wire.SmartLogSize)); err != nil {
			t.Fatal(err)
		}
		if smart.HostWrites.Lo != 3 || smart.HostReads.Lo != 1 || smart.DataUnitsWritten.Lo != 6 || smart.DataUnitsRead.Lo != 1 || smart.ErrorLogEntries.Lo != 1 {
			t.Errorf("namespace %d: %+v", nsid, smart)
		}
	}
	var entry wire.ErrorLogEntry
	if err := entry.Parse(page(wire.LogError, wire.NSIDAll, 0, 128)[:64]); err != nil {
		t.Fatal(err)
	}
	if entry.ErrorCount != 1 || entry.SQID != 1 || entry.LBA != 99999999 || entry.Status().Code() != wire.StatusLBAOutOfRange || entry.NSID != 1 {
		t.Errorf("%+v", entry)
	}
	var fw wire.FirmwareSlotLog
	if err := fw.Parse(page(wire.LogFirmwareSlot, 0, 0, 512)); err != nil || wire.Text(fw.FRS[0][:]) != "1.0" {
		t.Errorf("%+v, %v", fw, err)
	}
	var effects wire.CommandEffectsLog
	if err := effects.Parse(page(wire.LogCommandEffects, 0, 0, 4096)); err != nil || effects.IO[wire.IOWrite] != 3 || effects.IO[wire.IORead] != 1 || effects.IO[wire.IOCopy] != 0 {
		t.Errorf("%v, %v", effects.IO, err)
	}
	var changed wire.NSList
	if err := changed.Parse(page(wire.LogChangedNS, wire.NSIDAll, 0, 4096)); err != nil || len(changed) != 0 {
		t.Errorf("%v, %v", changed, err)
	}
	if b := page(wire.LogCommandEffects, 0, 1024+4, 8); binary.LittleEndian.Uint32(b) != 3 || binary.LittleEndian.Uint32(b[4:]) != 1 {
		t.Errorf("a window of the effects: %x", b)
	}
	if b := page(wire.LogSmart, 0, 512, 512); !bytes.Equal(b, make([]byte, 512)) {
		t.Error("behind the end of a page are no zeros")
	}
	for _, c := range []struct {
		name string
		get  wire.GetLogPage
		n    int
	}{
		{"behind the end", wire.NewGetLogPage(wire.LogSmart, 0, 516, 512), 512},
		{"wraps", wire.NewGetLogPage(wire.LogSmart, 0, 1<<64-4, 512), 512},
		{"odd offset", wire.NewGetLogPage(wire.LogSmart, 0, 2, 512), 512},
		{"unknown namespace", wire.NewGetLogPage(wire.LogSmart, 7, 0, 512), 512},
		{"unknown page", wire.NewGetLogPage(wire.LogANA, 0, 0, 512), 512},
		{"discovery", wire.NewGetLogPage(wire.LogDiscovery, 0, 0, 1024), 1024},
		{"longer than a transfer", wire.GetLogPage{LID: wire.LogSmart, NUMD: 0xFFFFFFFF}, 512},
	} {
		if b, cqe := q.get(c.get.SQE(), c.n); cqe.Status != statusInvalidField|wire.StatusMore || b[0] != 0xEE {
			t.Errorf("%s: %v", c.name, cqe.Status)
		}
	}
}

// TestErrorLogWraps protects the order of the log when it is full.
func TestErrorLogWraps(t *testing.T) {
	var l errorLog
	for i := range 300 {
		l.add(wire.ErrorLogEntry{CID: uint16(i)})
	}
	page := l.page()
	for i := range errorLogEntries {
		var e wire.ErrorLogEntry
		if err := e.Parse(page[i*64 : (i+1)*64]); err != nil || e.CID != uint16(299-i) || e.ErrorCount != uint64(300-i) {
			t.Fatalf("entry %d: %+v, %v", i, e, err)
		}
	}
}

// TestAdminErrors protects the statuses of commands that are not there, and of SGLs
// that do not fit.
func TestAdminErrors(t *testing.T) {
	e := newEnv(t)
	e.addRAM(1 << 20)
	q, _ := e.admin(testNQN)
	identify := wire.Identify{CNS: wire.CNSController}.SQE()
	with := func(sqe wire.SQE, f func(*wire.SQE)) wire.SQE {
		f(&sqe)
		return sqe
	}
	for _, c := range []struct {
		name string
		sqe  wire.SQE
		want wire.Status
	}{
		{"unknown opcode", with(identify, func(s *wire.SQE) { s.Opcode = 0xC1 }), statusInvalidOpcode},
		{"format", with(identify, func(s *wire.SQE) { s.Opcode = 0x80 }), statusInvalidOpcode},
		{"auth send", with(identify, func(s *wire.SQE) { s.Opcode, s.NSID = wire.OpcodeFabrics, 5 }), statusInvalidOpcode},
		{"second connect", wire.Connect{}.SQE(), statusSequenceError},
		{"no SGL", identify, statusLengthInvalid},
		{"short SGL", with(identify, func(s *wire.SQE) { s.SGL = q.keyed(4095) }), statusLengthInvalid},
		{"long SGL", with(identify, func(s *wire.SQE) { s.SGL = q.keyed(4097) }), statusLengthInvalid},
		{"SGL without data", with(wire.KeepAliveSQE(), func(s *wire.SQE) { s.SGL = q.keyed(4) }), statusLengthInvalid},
		{"unknown subtype", with(identify, func(s *wire.SQE) { s.SGL = q.keyed(4096); s.SGL.Subtype = 3 }), statusInvalidField},
		{"segment", with(identify, func(s *wire.SQE) { s.SGL = q.keyed(4096); s.SGL.Type = wire.SGLSegment }), wire.StatusSGLTypeInvalid | wire.StatusDNR},
		{"in-capsule for the host", with(identify, func(s *wire.SQE) { s.SGL = wire.OffsetSGL(0, 0); s.SGL.Length = 0 }), statusInvalidField},
		{"PRP", with(identify, func(s *wire.SQE) { s.Flags = 0 }), statusInvalidField},
		{"fused", with(identify, func(s *wire.SQE) { s.Flags |= 1 }), statusInvalidField},
	} {
		if cqe := q.do(c.sqe); cqe.Status != c.want|wire.StatusMore {
			t.Errorf("%s: %v, want %v", c.name, cqe.Status, c.want)
		}
	}
	if cqe := q.do(wire.Abort{SQID: 1, CID: 3}.SQE()); !cqe.Status.OK() || cqe.DW0() != 1 {
		t.Errorf("abort: %v, %d", cqe.Status, cqe.DW0())
	}
	plain := with(wire.KeepAliveSQE(), func(s *wire.SQE) { s.SGL = wire.SGL{} })
	q.must(plain) // an SGL of zeros is no data too
}

// TestKeepAlive protects hosts that are alive from being cut, and the target from
// hosts that are not.
func TestKeepAlive(t *testing.T) {
	e := newEnv(t)
	e.addRAM(1 << 20)
	q, _ := e.admin(testNQN)
	q.must(wire.SetFeatures{FID: wire.FeatureKeepAlive, CDW11: 1000}.SQE())
	start := time.Now()
	for range 3 {
		time.Sleep(500 * time.Millisecond)
		q.must(wire.KeepAliveSQE())
	}
	q.lost()
	if d := time.Since(start); d < 2400*time.Millisecond {
		t.Errorf("cut after %v", d)
	}
	e.until("the controller is gone", func() bool { return len(e.target.subsystem(testNQN).all()) == 0 })
}
