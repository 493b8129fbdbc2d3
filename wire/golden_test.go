package wire_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"rbd/wire"
	"rbd/wire/wiretest"
)

// A message is what every fixed-size type of the package is to these tests.
type message interface {
	Parse([]byte) error
	Append([]byte) []byte
}

// recording is one recorded connection as commands.
type recording struct {
	name      string
	admin     bool
	stream    *wiretest.Stream
	exchanges []*wiretest.Exchange
}

func recordings(t testing.TB) []recording {
	t.Helper()
	all := []recording{{name: "admin-queue", admin: true}, {name: "connect-unknown-nqn", admin: true}, {name: "discover", admin: true}, {name: "io-queue"}}
	for i := range all {
		r := &all[i]
		var err error
		if r.stream, err = wiretest.LoadStream(filepath.Join("testdata", "siw-stream-"+r.name+".txt.gz")); err != nil {
			t.Fatal(err)
		}
		if r.exchanges, err = r.stream.Exchanges(); err != nil {
			t.Fatalf("%s: %v", r.name, err)
		}
	}
	return all
}

// sameBytes decodes b into m and wants the encoding of m to be b again.
func sameBytes(t testing.TB, what string, m message, b []byte) {
	t.Helper()
	if err := m.Parse(b); err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	if got := m.Append(nil); !bytes.Equal(got, b) {
		t.Errorf("%s: encodes to other bytes, first at %d", what, firstDifference(got, b))
	}
}

func firstDifference(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// Every private data, command capsule, response capsule and data structure that the kernel's host and target exchanged must decode, and encode to the same bytes.
func TestGoldenRoundTrip(t *testing.T) {
	for _, r := range recordings(t) {
		sameBytes(t, r.name+" request", new(wire.CMRequest), r.stream.Halves[wiretest.Host].MPA.PrivateData)
		sameBytes(t, r.name+" reply", new(wire.CMReply), r.stream.Halves[wiretest.Target].MPA.PrivateData)
		for i, e := range r.exchanges {
			what := fmt.Sprintf("%s command %d", r.name, i)
			sameBytes(t, what, new(wire.SQE), e.Capsule[:wire.SQESize])
			if e.Answered {
				sameBytes(t, what+" response", new(wire.CQE), e.RawResponse)
			}
			again, known := rebuild(&e.Command, r.admin)
			if !known {
				t.Errorf("%s: opcode 0x%02x is not known", what, e.Command.Opcode)
			}
			again.CID, again.SGL = e.Command.CID, e.Command.SGL
			if again != e.Command {
				t.Errorf("%s: view encodes to another command:\n%+v\n%+v", what, again, e.Command)
			}
			checkData(t, what, r.admin, e)
		}
	}
}

// rebuild makes the command again from its view.
func rebuild(s *wire.SQE, admin bool) (wire.SQE, bool) {
	if s.Opcode == wire.OpcodeFabrics {
		switch s.FabricsType() {
		case wire.FabricsConnect:
			return wire.ParseConnect(s).SQE(), true
		case wire.FabricsPropertyGet:
			return wire.ParsePropertyGet(s).SQE(), true
		case wire.FabricsPropertySet:
			return wire.ParsePropertySet(s).SQE(), true
		}
		return wire.SQE{}, false
	}
	if !admin {
		return rebuildIO(s)
	}
	switch wire.AdminOpcode(s.Opcode) {
	case wire.AdminIdentify:
		return wire.ParseIdentify(s).SQE(), true
	case wire.AdminGetLogPage:
		return wire.ParseGetLogPage(s).SQE(), true
	case wire.AdminSetFeatures:
		return wire.ParseSetFeatures(s).SQE(), true
	case wire.AdminGetFeatures:
		return wire.ParseGetFeatures(s).SQE(), true
	case wire.AdminAbort:
		return wire.ParseAbort(s).SQE(), true
	case wire.AdminAsyncEventRequest:
		return wire.AsyncEventRequestSQE(), true
	case wire.AdminKeepAlive:
		return wire.KeepAliveSQE(), true
	}
	return wire.SQE{}, false
}

func rebuildIO(s *wire.SQE) (wire.SQE, bool) {
	switch op := wire.IOOpcode(s.Opcode); op {
	case wire.IOFlush:
		return wire.FlushSQE(s.NSID), true
	case wire.IORead, wire.IOWrite, wire.IOCompare, wire.IOWriteZeroes:
		again := wire.RangeSQE(op, s.NSID, s.SLBA(), s.Blocks())
		again.SetFUA(s.FUA())
		again.SetLR(s.LR())
		again.SetDEAC(s.DEAC())
		again.CDW13 = s.CDW13 // dataset management hints, as read-ahead has them
		return again, true
	case wire.IODSM:
		return wire.DSMSQE(s.NSID, s.DSMRanges(), s.DSMAttributes()), true
	}
	return wire.SQE{}, false
}

// checkData round-trips the data structure that a command carried.
func checkData(t *testing.T, what string, admin bool, e *wiretest.Exchange) {
	t.Helper()
	s := &e.Command
	switch {
	case s.Opcode == wire.OpcodeFabrics && s.FabricsType() == wire.FabricsConnect:
		sameBytes(t, what+" connect data", new(wire.ConnectData), e.DataOut)
	case !admin && wire.IOOpcode(s.Opcode) == wire.IODSM:
		for i := range s.DSMRanges() {
			sameBytes(t, what+" range", new(wire.DSMRange), e.DataOut[i*wire.DSMRangeSize:][:wire.DSMRangeSize])
		}
	case admin && len(e.DataIn) > 0 && wire.AdminOpcode(s.Opcode) == wire.AdminIdentify:
		if m := identifyData(wire.ParseIdentify(s).CNS); m != nil {
			sameBytes(t, what+" identify", m, e.DataIn)
		} else {
			t.Errorf("%s: %s is not known", what, wire.ParseIdentify(s).CNS)
		}
	case admin && len(e.DataIn) > 0 && wire.AdminOpcode(s.Opcode) == wire.AdminGetLogPage:
		checkLog(t, what, wire.ParseGetLogPage(s), e.DataIn)
	case admin && len(e.DataIn) > 0:
		t.Errorf("%s: data of %s is not known", what, wire.AdminOpcode(s.Opcode))
	}
}

func identifyData(cns wire.CNS) message {
	switch cns {
	case wire.CNSController:
		return new(wire.IdentifyController)
	case wire.CNSNamespace:
		return new(wire.IdentifyNamespace)
	case wire.CNSActiveNamespaces:
		return new(wire.NSList)
	case wire.CNSNamespaceDescriptors:
		return new(wire.NSDescriptors)
	case wire.CNSCSIController:
		return new(wire.IdentifyNVMController)
	}
	return nil
}

func checkLog(t *testing.T, what string, g wire.GetLogPage, data []byte) {
	t.Helper()
	what += " log"
	if g.Bytes() != uint64(len(data)) {
		t.Errorf("%s: command asks for %d bytes, %d came", what, g.Bytes(), len(data))
	}
	switch g.LID {
	case wire.LogError:
		for ; len(data) > 0; data = data[wire.ErrorLogEntrySize:] {
			sameBytes(t, what, new(wire.ErrorLogEntry), data[:wire.ErrorLogEntrySize])
		}
	case wire.LogSmart:
		sameBytes(t, what, new(wire.SmartLog), data)
	case wire.LogCommandEffects:
		sameBytes(t, what, new(wire.CommandEffectsLog), data)
	case wire.LogANA:
		var a wire.ANALog
		if err := a.Parse(data); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		again := a.Append(nil)
		if again = append(again, make([]byte, len(data)-len(again))...); !bytes.Equal(again, data) {
			t.Errorf("%s: encodes to other bytes", what)
		}
	case wire.LogDiscovery:
		sameBytes(t, what+" header", new(wire.DiscoveryLogHeader), data[:wire.DiscoveryLogHeaderSize])
		for data = data[wire.DiscoveryLogHeaderSize:]; len(data) > 0; data = data[wire.DiscoveryLogEntrySize:] {
			sameBytes(t, what+" entry", new(wire.DiscoveryLogEntry), data[:wire.DiscoveryLogEntrySize])
		}
	default:
		t.Errorf("%s: %s is not known", what, g.LID)
	}
}

// The same over RoCE, where private data comes with the padding of its MAD and another stack made the capsules.
func TestGoldenRoCE(t *testing.T) {
	r, err := wiretest.LoadRoCE(filepath.Join("testdata", "nvme-rdma-over-rxe.pcap.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range r.CM {
		what := fmt.Sprintf("cm message %d", i)
		switch m.Attribute {
		case wiretest.CMREQ:
			paddedBytes(t, what, new(wire.CMRequest), m.PrivateData)
		case wiretest.CMREP:
			paddedBytes(t, what, new(wire.CMReply), m.PrivateData)
		}
	}
	for i, s := range r.Sends {
		what := fmt.Sprintf("send %d", i)
		if len(s.Payload) == wire.CQESize {
			sameBytes(t, what, new(wire.CQE), s.Payload)
			continue
		}
		sameBytes(t, what, new(wire.SQE), s.Payload[:wire.SQESize])
	}
}

func paddedBytes(t *testing.T, what string, m message, b []byte) {
	t.Helper()
	if err := m.Parse(b); err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	got := m.Append(nil)
	if got = append(got, make([]byte, len(b)-len(got))...); !bytes.Equal(got, b) {
		t.Errorf("%s: encodes to other bytes, first at %d", what, firstDifference(got, b))
	}
}
