package target

import (
	"bytes"
	"strconv"
	"testing"
	"time"

	"rbd/target/backend"
	"rbd/wire"
)

// aer sends an Asynchronous Event Request that stays outstanding.
func (q *hostQueue) aer(cid uint16) {
	q.t.Helper()
	sqe := wire.AsyncEventRequestSQE()
	sqe.CID = cid
	q.send(sqe, nil)
}

// event waits for the answer to an Asynchronous Event Request.
func (q *hostQueue) event(cid uint16) wire.AsyncEvent {
	q.t.Helper()
	cqe, err := q.answer()
	if err != nil || !cqe.Status.OK() || cqe.CID != cid {
		q.t.Fatalf("event: %v, %v", cqe.String(), err)
	}
	return wire.ParseAsyncEvent(cqe.DW0())
}

// TestNamespaceEvents protects how hosts learn that namespaces come, go and change:
// one event until the log page was read, and then the next.
func TestNamespaceEvents(t *testing.T) {
	e := newEnv(t)
	e.addRAM(1 << 20)
	q, cntlid := e.admin(testNQN)
	q.must(wire.SetFeatures{FID: wire.FeatureAsyncEvents, CDW11: wire.OAESNamespace}.SQE())
	changed := func(rae bool) wire.NSList {
		t.Helper()
		get := wire.NewGetLogPage(wire.LogChangedNS, wire.NSIDAll, 0, 4096)
		get.RAE = rae
		b, cqe := q.get(get.SQE(), 4096)
		var list wire.NSList
		if err := list.Parse(b); err != nil || !cqe.Status.OK() {
			t.Fatal(err, cqe.Status)
		}
		return list
	}
	q.aer(1000)
	q.aer(1001)
	e.addRAM(1 << 20)
	if ev := q.event(1000); ev != wire.NamespaceChanged() {
		t.Errorf("%v", ev)
	}
	e.addRAM(1 << 20) // no second event before the page was read
	if list := changed(true); len(list) != 2 || list[0] != 2 || list[1] != 3 {
		t.Errorf("changed: %v", list)
	}
	if list := changed(false); len(list) != 2 {
		t.Errorf("changed, when retained: %v", list)
	}
	if list := changed(false); len(list) != 0 {
		t.Errorf("changed, after reading: %v", list)
	}
	if err := e.target.RemoveNamespace(t.Context(), testNQN, 2); err != nil {
		t.Fatal(err)
	}
	if ev := q.event(1001); ev != wire.NamespaceChanged() {
		t.Errorf("%v", ev)
	}
	io := e.io(cntlid, 1, 16)
	sqe := wire.FlushSQE(2)
	if cqe := io.do(sqe); cqe.Status.Code() != wire.StatusInvalidNamespace {
		t.Errorf("flush of a namespace that is gone: %v", cqe.Status)
	}
	if list := changed(false); len(list) != 1 || list[0] != 2 {
		t.Errorf("changed: %v", list)
	}
	e.addRAM(1 << 20) // an event that finds no request is kept
	q.aer(1002)
	if ev := q.event(1002); ev != wire.NamespaceChanged() {
		t.Errorf("%v", ev)
	}
}

// TestEventRequests protects the limit of requests, and Abort.
func TestEventRequests(t *testing.T) {
	e := newEnv(t)
	e.addRAM(1 << 20)
	q, _ := e.admin(testNQN)
	for i := range uint16(4) {
		q.aer(1000 + i)
	}
	q.aer(1004)
	if cqe, err := q.answer(); err != nil || cqe.CID != 1004 || cqe.Status.Code() != wire.StatusAsyncLimitExceeded {
		t.Errorf("%v, %v", cqe.String(), err)
	}
	q.aer(1001) // outstanding already
	if cqe, err := q.answer(); err != nil || cqe.CID != 1001 || cqe.Status.Code() != wire.StatusCommandIDConflict {
		t.Errorf("%v, %v", cqe.String(), err)
	}
	abort := wire.Abort{CID: 1002}.SQE()
	abort.CID = 7
	q.send(abort, nil)
	got := map[uint16]wire.CQE{}
	for range 2 {
		cqe, err := q.answer()
		if err != nil {
			t.Fatal(err)
		}
		got[cqe.CID] = cqe
	}
	if got[1002].Status.Code() != wire.StatusAbortRequested || !got[7].Status.OK() || got[7].Result != 0 {
		t.Errorf("%v", got)
	}
	q.setCC(wire.MakeCC(0).WithEN(true).WithSHN(wire.ShutdownNormal)) // a shutdown leaves them
	q.setCC(wire.MakeCC(0))                                           // a reset ends them; its answer comes first or last
}

// TestResize protects hosts from using a size that is not there any more.
func TestResize(t *testing.T) {
	e := newEnv(t)
	path := t.TempDir() + "/disk"
	f, err := backend.OpenFile(path, backend.FileOptions{CreateSize: 1 << 20})
	info := e.add(f, err)
	q, cntlid := e.admin(testNQN)
	io := e.io(cntlid, 1, 16)
	q.must(wire.SetFeatures{FID: wire.FeatureAsyncEvents, CDW11: wire.OAESNamespace}.SQE())
	q.aer(1000)
	if size, err := e.target.Resize(info.NQN, info.NSID); err != nil || size != 1<<20 {
		t.Fatalf("%d, %v", size, err)
	}
	if cqe := io.do(io.rangeCmd(wire.IOWrite, 2048, 1)); cqe.Status.Code() != wire.StatusLBAOutOfRange {
		t.Errorf("write behind the end: %v", cqe.Status)
	}
	if err := truncate(path, 2<<20); err != nil {
		t.Fatal(err)
	}
	if size, err := e.target.Resize(info.NQN, info.NSID); err != nil || size != 2<<20 {
		t.Fatalf("%d, %v", size, err)
	}
	q.event(1000)
	b, _ := q.get(wire.Identify{CNS: wire.CNSNamespace, NSID: 1}.SQE(), 4096)
	var id wire.IdentifyNamespace
	if err := id.Parse(b); err != nil || id.NSZE != 4096 {
		t.Errorf("NSZE %d, %v", id.NSZE, err)
	}
	io.must(io.rangeCmd(wire.IOWrite, 2048, 1))
}

// TestDiscovery protects what hosts find: the discovery subsystem first, then what
// they may use, at the address where they are, with a generation that changes.
func TestDiscovery(t *testing.T) {
	e := newEnv(t, withPolicy(AccessPolicy{Hosts: []string{testHost}}))
	e.addRAM(1 << 20)
	e.addRAM(1 << 20) // another namespace, not another entry
	ram, err := backend.NewRAM(1<<20, 512)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.target.AddNamespace(Export{NQN: "nqn.2026-11.io.rbd:another", Backend: ram}); err != nil {
		t.Fatal(err)
	}
	q, _ := e.admin(wire.DiscoveryNQN)
	var id wire.IdentifyController
	b, _ := q.get(wire.Identify{CNS: wire.CNSController}.SQE(), 4096)
	if err := id.Parse(b); err != nil || id.CNTRLTYPE != wire.ControllerDiscovery || id.OAES != wire.OAESDiscovery || id.SubNQN.String() != wire.DiscoveryNQN || id.SGLS&5 != 5 {
		t.Errorf("%+v, %v", id, err)
	}
	page := func(off uint64, n uint32) []byte {
		t.Helper()
		get := wire.NewGetLogPage(wire.LogDiscovery, 0, off, n)
		get.RAE = false
		b, cqe := q.get(get.SQE(), int(n))
		if !cqe.Status.OK() {
			t.Fatal(cqe.Status)
		}
		return b
	}
	var head wire.DiscoveryLogHeader
	if err := head.Parse(page(0, 20)); err != nil || head.NUMREC != 3 || head.GENCTR != 3 {
		t.Fatalf("%+v, %v", head, err)
	}
	records := page(1024, 3*1024)
	for i, want := range []struct {
		nqn  string
		kind wire.SubsystemType
	}{{wire.DiscoveryNQN, wire.SubsystemCurrentDiscovery}, {"nqn.2026-11.io.rbd:another", wire.SubsystemNVM}, {testNQN, wire.SubsystemNVM}} {
		var r wire.DiscoveryLogEntry
		if err := r.Parse(records[i*1024 : (i+1)*1024]); err != nil {
			t.Fatal(err)
		}
		if r.SUBNQN.String() != want.nqn || r.SUBTYPE != want.kind || wire.Text(r.TRADDR[:]) != "127.0.0.1" || wire.Text(r.TRSVCID[:]) != e.addr.Port ||
			r.TRTYPE != wire.TransportRDMA || r.ADRFAM != wire.AddressIPv4 || r.CNTLID != 0xFFFF || r.ASQSZ != 32 || r.PORTID != 1 || r.TSAS.PRTYPE != wire.ProviderIWARP {
			t.Errorf("record %d: %+v", i, r)
		}
	}
	q.must(wire.SetFeatures{FID: wire.FeatureAsyncEvents, CDW11: wire.OAESDiscovery}.SQE())
	q.aer(1000)
	if ram, err = backend.NewRAM(1<<20, 512); err != nil {
		t.Fatal(err)
	}
	if _, err := e.target.AddNamespace(Export{NQN: "nqn.2026-11.io.rbd:a", Backend: ram}); err != nil { // the first in the order of names
		t.Fatal(err)
	}
	if ev := q.event(1000); ev != wire.DiscoveryChanged() {
		t.Errorf("%v", ev)
	}
	if again := page(1024, 3*1024); !bytes.Equal(again, records) {
		t.Error("a host that reads the page piece by piece gets pieces of different pages")
	}
	if err := head.Parse(page(0, 1024)); err != nil || head.GENCTR != 4 || head.NUMREC != 4 {
		t.Errorf("%+v, %v", head, err)
	}
	for _, c := range []struct {
		sqe  wire.SQE
		n    int
		want wire.Status
	}{
		{wire.Identify{CNS: wire.CNSActiveNamespaces}.SQE(), 4096, wire.StatusInvalidField},
		{wire.NewGetLogPage(wire.LogSmart, 0, 0, 512).SQE(), 512, wire.StatusInvalidField},
		{wire.NewGetLogPage(wire.LogDiscovery, 0, 8192, 512).SQE(), 512, wire.StatusInvalidField},
		{wire.SetFeatures{FID: wire.FeatureNumberOfQueues}.SQE(), 0, wire.StatusInvalidField},
		{wire.GetFeatures{FID: wire.FeatureVolatileWriteCache}.SQE(), 0, wire.StatusInvalidField},
		{wire.Abort{}.SQE(), 0, wire.StatusInvalidOpcode},
	} {
		if c.n > 0 {
			c.sqe.SGL = q.keyed(c.n)
		}
		if cqe := q.do(c.sqe); cqe.Status.Code() != c.want {
			t.Errorf("opcode 0x%x: %v, want %v", c.sqe.Opcode, cqe.Status, c.want)
		}
	}
	stranger, err := e.dial(0, 32)
	if err != nil {
		t.Fatal(err)
	}
	d := connectData(wire.CNTLIDDynamic)
	d.SubNQN, d.HostNQN = wire.MakeNQNField(wire.DiscoveryNQN), wire.MakeNQNField("nqn.2026-11.io.rbd:stranger")
	if cqe := stranger.connect(wire.Connect{SQSize: 31}, d); !cqe.Status.OK() {
		t.Fatalf("a stranger asks for discovery: %v", cqe.Status)
	}
	stranger.setCC(wire.MakeCC(0).WithEN(true))
	b, cqe := stranger.get(wire.NewGetLogPage(wire.LogDiscovery, 0, 0, 1024).SQE(), 1024)
	if err := head.Parse(b); err != nil || !cqe.Status.OK() || head.NUMREC != 1 {
		t.Errorf("a stranger sees %d records, %v, %v", head.NUMREC, cqe.Status, err)
	}
	if cqe := stranger.do(wire.GetFeatures{FID: wire.FeatureKeepAlive}.SQE()); cqe.DW0() != uint32(discoveryKATO/time.Millisecond) {
		t.Errorf("keep alive %s ms", strconv.Itoa(int(cqe.DW0())))
	}
}

// TestNamespaces protects identities and their conflicts.
func TestNamespaces(t *testing.T) {
	e := newEnv(t)
	first := e.add(mustRAM(t), nil)
	if first.NSID != 1 || first.Size != 1<<20 || first.BlockSize != 512 || first.UUID != namespaceUUID(testNQN, 1) {
		t.Errorf("%+v", first)
	}
	spare := mustRAM(t)
	defer spare.Close()
	for name, x := range map[string]Export{
		"identifier in use": {NQN: testNQN, NSID: 1},
		"uuid in use":       {NQN: "nqn.2026-11.io.rbd:b", UUID: first.UUID},
		"no name":           {NQN: ""},
		"bad name":          {NQN: "disk"},
		"discovery":         {NQN: wire.DiscoveryNQN},
		"identifier":        {NQN: testNQN, NSID: 1025},
	} {
		x.Backend = spare
		if _, err := e.target.AddNamespace(x); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if len(e.target.Exports()) != 1 {
		t.Errorf("%+v", e.target.Exports())
	}
	given := wire.UUID{9: 9}
	x, err := e.target.AddNamespace(Export{NQN: "nqn.2026-11.io.rbd:a", NSID: 7, UUID: given, Backend: mustRAM(t)})
	if err != nil || x.UUID != given || x.NSID != 7 {
		t.Errorf("%+v, %v", x, err)
	}
	if list := e.target.Exports(); len(list) != 2 || list[0].NSID != 7 {
		t.Errorf("%+v", list)
	}
	if err := e.target.RemoveNamespace(t.Context(), testNQN, 1); err != nil {
		t.Error(err)
	}
	if again := e.add(mustRAM(t), nil); again.UUID != first.UUID {
		t.Errorf("the identity has changed: %+v", again)
	}
}

func mustRAM(t *testing.T) backend.Backend {
	t.Helper()
	b, err := backend.NewRAM(1<<20, 512)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
