package wire_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"rbd/wire"
)

// A range of blocks is the peer's word: no value may wrap into the namespace.
func TestInRange(t *testing.T) {
	const most = 1<<64 - 1
	for _, c := range []struct {
		slba   uint64
		blocks uint32
		nsze   uint64
		want   bool
	}{
		{0, 1, 1, true}, {0, 2, 1, false}, {1, 1, 1, false}, {1, 0, 1, true}, {2, 0, 1, false}, {most, 1, 100, false},
		{most - 7, 8, most, false}, {most - 8, 8, most, true}, {0, wire.MaxBlocks, wire.MaxBlocks, true}, {0, 1, 0, false},
	} {
		if got := wire.InRange(c.slba, c.blocks, c.nsze); got != c.want {
			t.Errorf("%d blocks from %d on in %d: %t", c.blocks, c.slba, c.nsze, got)
		}
	}
}

func TestRangeCommands(t *testing.T) {
	s := wire.RangeSQE(wire.IOWriteZeroes, 3, 0x0102030405060708, wire.MaxBlocks)
	s.SetFUA(true)
	s.SetLR(true)
	s.SetDEAC(true)
	if s.Flags != wire.FlagsPSDTSGL || s.NSID != 3 || s.SLBA() != 0x0102030405060708 || s.Blocks() != wire.MaxBlocks || s.CDW12 != 0xC200FFFF {
		t.Errorf("command is %+v", s)
	}
	s.CDW12 |= 0xF << 26
	if !s.FUA() || !s.LR() || !s.DEAC() || s.PRINFO() != 0xF {
		t.Errorf("FUA %t LR %t DEAC %t PRINFO %d", s.FUA(), s.LR(), s.DEAC(), s.PRINFO())
	}
	s.SetFUA(false)
	s.SetLR(false)
	s.SetDEAC(false)
	if s.CDW12 != 0x3C00FFFF {
		t.Errorf("dword 12 is 0x%08x", s.CDW12)
	}
	d := wire.DSMSQE(1, wire.MaxDSMRanges, wire.DSMDeallocate)
	if d.DSMRanges() != wire.MaxDSMRanges || d.DSMAttributes() != wire.DSMDeallocate || d.CDW10 != 255 {
		t.Errorf("command is %+v", d)
	}
}

// The lines are what people read when they look for a fault.
func TestCommandText(t *testing.T) {
	read := wire.RangeSQE(wire.IORead, 1, 2048, 8)
	read.CID, read.SGL = 7, wire.KeyedSGL(0x1000, 4096, 0x12, true)
	read.SetFUA(true)
	zeroes := wire.RangeSQE(wire.IOWriteZeroes, 1, 0, 1)
	zeroes.SetDEAC(true)
	format := wire.SQE{Opcode: uint8(wire.AdminFormatNVM), NSID: wire.NSIDAll}
	for _, c := range []struct {
		sqe   wire.SQE
		admin bool
		want  string
	}{
		{read, false, "read nsid=1 slba=2048 blocks=8 fua cid=7 sgl=keyed addr=0x1000 len=4096 key=0x00000012 invalidate"},
		{zeroes, false, "write zeroes nsid=1 slba=0 blocks=1 deac cid=0 sgl=none"},
		{wire.FlushSQE(1), false, "flush nsid=1 cid=0 sgl=none"},
		{wire.DSMSQE(1, 2, wire.DSMDeallocate), false, "dataset management nsid=1 ranges=2 attributes=0x4 cid=0 sgl=none"},
		{wire.Connect{QID: 1, SQSize: 127}.SQE(), false, "connect qid=1 sqsize=127 kato=0 cid=0 sgl=none"},
		{wire.Connect{SQSize: 31, KATO: 5000}.SQE(), true, "connect qid=0 sqsize=31 kato=5000 cid=0 sgl=none"},
		{wire.NewPropertyGet(wire.PropertyVS).SQE(), true, "property get VS cid=0 sgl=none"},
		{wire.NewPropertySet(wire.PropertyCC, 0x460001).SQE(), true, "property set CC value=0x460001 cid=0 sgl=none"},
		{wire.DisconnectSQE(), false, "disconnect cid=0 sgl=none"},
		{wire.Identify{CNS: wire.CNSController}.SQE(), true, "identify controller nsid=0 cid=0 sgl=none"},
		{wire.NewGetLogPage(wire.LogDiscovery, 0, 1024, 2048).SQE(), true, "get log page discovery nsid=0 off=1024 bytes=2048 cid=0 sgl=none"},
		{wire.SetFeatures{FID: wire.FeatureNumberOfQueues, CDW11: 3}.SQE(), true, "set features number of queues nsid=0 value=0x3 cid=0 sgl=none"},
		{wire.GetFeatures{FID: wire.FeatureKeepAlive}.SQE(), true, "get features keep alive timer nsid=0 cid=0 sgl=none"},
		{wire.Abort{SQID: 1, CID: 2}.SQE(), true, "abort sqid=1 aborted-cid=2 cid=0 sgl=none"},
		{wire.KeepAliveSQE(), true, "keep alive cid=0 sgl=none"},
		{format, true, "format nvm nsid=all cid=0 sgl=data block/address addr=0x0 len=0"},
	} {
		got := (*wire.IOSQE)(&c.sqe).String()
		if c.admin {
			got = (*wire.AdminSQE)(&c.sqe).String()
		}
		if got != c.want {
			t.Errorf("text is %q, want %q", got, c.want)
		}
	}
	answer := wire.CQE{CID: 7, SQHD: 3, Status: wire.StatusLBAOutOfRange.WithDNR()}
	var line bytes.Buffer
	slog.New(slog.NewTextHandler(&line, nil)).Info("x", "io", (*wire.IOSQE)(&read), "admin", (*wire.AdminSQE)(&format), "cqe", &answer)
	for _, want := range []string{`io="read nsid=1`, `admin="format nvm`, `cqe="cid=7 sqhd=3 result=0x0 LBA out of range (0x080), do not retry"`} {
		if !strings.Contains(line.String(), want) {
			t.Errorf("line %s has no %s", &line, want)
		}
	}
}
