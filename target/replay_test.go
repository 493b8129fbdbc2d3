package target

import (
	"bytes"
	"testing"

	"rbd/target/backend"
	"rbd/verbs"
	"rbd/wire"
	"rbd/wire/wiretest"
)

// recordedNQN is the subsystem that the recorded host uses.
const recordedNQN = "nqn.2026-11.org.example:disk1"

func recorded(t *testing.T, name string) []*wiretest.Exchange {
	t.Helper()
	s, err := wiretest.LoadStream("../wire/testdata/siw-stream-" + name + ".txt.gz")
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.Exchanges()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// recordedDisk is a target with the disk of the recording: 1 GiB of zeros.
func recordedDisk(t *testing.T) *env {
	t.Helper()
	e := newEnv(t)
	ram, err := backend.NewRAM(1<<30, 512)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.target.AddNamespace(Export{NQN: recordedNQN, Backend: ram}); err != nil {
		t.Fatal(err)
	}
	return e
}

// replay sends a recorded command as it is, but for the memory that its SGL names,
// and returns the answer and what was placed.
func (q *hostQueue) replay(x *wiretest.Exchange, change ...func(*wire.SQE, []byte)) (wire.CQE, []byte) {
	q.t.Helper()
	sqe, out := x.Command, bytes.Clone(x.DataOut)
	for _, f := range change {
		f(&sqe, out)
	}
	var mem, inCapsule []byte
	var mr verbs.MR
	switch n := int(sqe.SGL.Length); {
	case sqe.SGL.InCapsule():
		inCapsule = out
	case n > 0:
		mem = q.data(n)
		clear(mem)
		copy(mem, out)
		var err error
		if mr, err = q.pd.RegMR(mem, verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite); err != nil {
			q.t.Fatal(err)
		}
		sqe.SGL.Addr, sqe.SGL.Key = mr.Addr(), mr.RKey()
		defer mr.Dereg()
	}
	q.send(sqe, inCapsule)
	if !x.Answered {
		return wire.CQE{}, nil
	}
	cqe, err := q.answer()
	if err != nil {
		q.t.Fatalf("%s: %v", (*wire.AdminSQE)(&sqe), err)
	}
	if cqe.CID != sqe.CID {
		q.t.Fatalf("%s: answer to %d", (*wire.AdminSQE)(&sqe), cqe.CID)
	}
	if inv := q.last.Flags&verbs.WCWithInv != 0; inv != (x.Invalidated != 0) && cqe.Status.OK() || inv && q.last.InvalidatedRKey != mr.RKey() {
		q.t.Errorf("%s: invalidated %v", (*wire.AdminSQE)(&sqe), inv)
	}
	return cqe, mem
}

// replaySame is replay of a command that must be answered as the kernel's target
// did: same status and result.
func (q *hostQueue) replaySame(x *wiretest.Exchange, change ...func(*wire.SQE, []byte)) (wire.CQE, []byte) {
	q.t.Helper()
	cqe, mem := q.replay(x, change...)
	if x.Answered && (cqe.Status != x.Response.Status || cqe.Result != x.Response.Result || cqe.SQHD != x.Response.SQHD) {
		q.t.Errorf("%s: %s, the kernel's target answered %s", (*wire.AdminSQE)(&x.Command), cqe.String(), x.Response.String())
	}
	return cqe, mem
}

// TestReplayKernelHost protects the Linux host: what it sent to the kernel's target,
// on the admin and the I/O queue, gets answers of the same shape, and the same data.
func TestReplayKernelHost(t *testing.T) {
	e := recordedDisk(t)
	admin, err := e.dial(0, 32)
	if err != nil {
		t.Fatal(err)
	}
	list := recorded(t, "admin-queue")
	rest := 0
	for i, x := range list {
		admin.replayAdmin(x)
		if !x.Answered { // the event request: now the host makes its I/O queue
			rest = i + 1
			break
		}
	}
	q, err := e.dial(1, 128)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range recorded(t, "io-queue") {
		if i == 0 {
			q.replaySame(x, func(_ *wire.SQE, data []byte) { data[16], data[17] = 1, 0 })
			continue
		}
		if !x.Response.Status.OK() { // a read behind the end
			if cqe, _ := q.replay(x); cqe.Status.Code() != wire.StatusLBAOutOfRange || !cqe.Status.DNR() {
				t.Errorf("%s: %v", (*wire.IOSQE)(&x.Command), cqe.Status)
			}
			continue
		}
		if _, mem := q.replaySame(x); x.Written > 0 && !bytes.Equal(mem, x.DataIn) {
			t.Errorf("%s: other data", (*wire.IOSQE)(&x.Command))
		}
	}
	for _, x := range list[rest:] {
		admin.replayAdmin(x)
	}
	if len(admin.recvs) != 0 {
		t.Error("an event request was answered without an event")
	}
}

// replayAdmin replays an admin command. Where our controller differs from the
// kernel's in what it offers, what the host relies on is compared.
func (q *hostQueue) replayAdmin(x *wiretest.Exchange) {
	q.t.Helper()
	sqe := &x.Command
	name := (*wire.AdminSQE)(sqe)
	switch {
	case sqe.Opcode == wire.OpcodeFabrics:
		q.replayProperty(x)
	case sqe.Opcode == uint8(wire.AdminGetLogPage) && wire.ParseGetLogPage(sqe).LID == wire.LogANA:
		if cqe, _ := q.replay(x); cqe.Status.Code() != wire.StatusInvalidField {
			q.t.Errorf("%s: %v", name, cqe.Status)
		}
	case sqe.Opcode == uint8(wire.AdminSetFeatures) && wire.ParseSetFeatures(sqe).FID == wire.FeatureNumberOfQueues:
		if cqe, _ := q.replay(x); !cqe.Status.OK() || wire.ParseNumberOfQueues(cqe.DW0()).Pairs() < 1 {
			q.t.Errorf("%s: %s", name, cqe.String())
		}
	case sqe.Opcode == uint8(wire.AdminSetFeatures):
		// The host turns on what Identify offers.
		cqe, _ := q.replay(x, func(s *wire.SQE, _ []byte) { s.CDW11 &= wire.OAESNamespace | wire.OAESDiscovery })
		if want := x.Command.CDW11 & (wire.OAESNamespace | wire.OAESDiscovery); !cqe.Status.OK() || cqe.DW0() != want {
			q.t.Errorf("%s: %s", name, cqe.String())
		}
	default:
		_, mem := q.replaySame(x)
		if sqe.Opcode == uint8(wire.AdminIdentify) {
			q.compareIdentify(x, mem)
		}
	}
}

func (q *hostQueue) replayProperty(x *wiretest.Exchange) {
	q.t.Helper()
	get := wire.ParsePropertyGet(&x.Command)
	isGet := x.Command.FabricsType() == wire.FabricsPropertyGet
	switch {
	case isGet && get.Offset == wire.PropertyCAP:
		cqe, _ := q.replay(x)
		ours, theirs := wire.CAP(cqe.Result), wire.CAP(x.Response.Result)
		if ours.MQES() != theirs.MQES() || ours.TO() != theirs.TO() || ours.CSS()&theirs.CSS()&wire.CAPCSSNVM == 0 {
			q.t.Errorf("CAP 0x%x, 0x%x", ours, theirs)
		}
	case isGet && get.Offset == wire.PropertyVS:
		if cqe, _ := q.replay(x); wire.Version(cqe.Result) < wire.Version(x.Response.Result) {
			q.t.Errorf("VS %s", wire.Version(cqe.Result))
		}
	default:
		q.replaySame(x)
	}
}

// compareIdentify compares the fields that a host decides by.
func (q *hostQueue) compareIdentify(x *wiretest.Exchange, mem []byte) {
	q.t.Helper()
	type fields []any
	var ours, theirs fields
	for _, side := range []struct {
		b   []byte
		set *fields
	}{{mem, &ours}, {x.DataIn, &theirs}} {
		switch id := wire.ParseIdentify(&x.Command); id.CNS {
		case wire.CNSController:
			var c wire.IdentifyController
			if err := c.Parse(side.b); err != nil {
				q.t.Fatal(err)
			}
			*side.set = fields{c.CNTLID, c.MDTS, c.CTRATT, c.CNTRLTYPE, c.ACL, c.AERL, c.FRMW, c.ELPE, c.KAS, c.SQES, c.CQES, c.MAXCMD,
				c.NN, c.MNAN, c.ONCS &^ wire.ONCSCompare, c.FUSES, c.FNA, c.VWC, c.AWUN, c.AWUPF, c.SGLS, c.SubNQN, c.IORCSZ, c.ICDOFF, c.MSDBD, c.CTRATTR}
		case wire.CNSNamespace:
			var n wire.IdentifyNamespace
			if err := n.Parse(side.b); err != nil {
				q.t.Fatal(err)
			}
			*side.set = fields{n.NSZE, n.NCAP, n.NUSE, n.NLBAF, n.FLBAS, n.MC, n.DPC, n.DPS, n.NMIC, n.NSATTR, n.LBAF[0]}
		case wire.CNSNamespaceDescriptors:
			var d wire.NSDescriptors
			if err := d.Parse(side.b); err != nil {
				q.t.Fatal(err)
			}
			*side.set = fields{d.UUID.IsZero(), d.CSI, d.HasCSI}
		default:
			*side.set = fields{string(side.b)}
		}
	}
	for i := range ours {
		if ours[i] != theirs[i] {
			q.t.Errorf("%s: field %d is %v, the kernel's target has %v", (*wire.AdminSQE)(&x.Command), i, ours[i], theirs[i])
		}
	}
}

// TestReplayDiscovery protects nvme discover.
func TestReplayDiscovery(t *testing.T) {
	e := recordedDisk(t)
	q, err := e.dial(0, 32)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range recorded(t, "discover") {
		if x.Command.Opcode != uint8(wire.AdminGetLogPage) {
			if x.Command.Opcode == uint8(wire.AdminIdentify) {
				q.replaySame(x)
			} else {
				q.replayAdmin(x)
			}
			continue
		}
		_, mem := q.replaySame(x)
		var ours, theirs wire.DiscoveryLogHeader
		if ours.Parse(mem) != nil || theirs.Parse(x.DataIn) != nil || ours.NUMREC != theirs.NUMREC {
			t.Errorf("%d records, the kernel's target has %d", ours.NUMREC, theirs.NUMREC)
		}
		for b, c := mem, x.DataIn; len(b) > 1024; {
			b, c = b[1024:], c[1024:]
			var r, k wire.DiscoveryLogEntry
			if r.Parse(b[:1024]) != nil || k.Parse(c[:1024]) != nil {
				t.Fatal("records")
			}
			if r.SUBNQN != k.SUBNQN || r.SUBTYPE != k.SUBTYPE || r.TRTYPE != k.TRTYPE || r.ADRFAM != k.ADRFAM || r.TREQ != k.TREQ ||
				r.CNTLID != k.CNTLID || r.ASQSZ != k.ASQSZ || r.TSAS.QPTYPE != k.TSAS.QPTYPE || r.TSAS.CMS != k.TSAS.CMS {
				t.Errorf("%+v, the kernel's target has %+v", r, k)
			}
		}
	}
}

// TestReplayUnknownNQN protects the refusal of a Connect to a subsystem that is not
// there.
func TestReplayUnknownNQN(t *testing.T) {
	e := recordedDisk(t)
	q, err := e.dial(0, 32)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range recorded(t, "connect-unknown-nqn") {
		q.replaySame(x)
	}
}
