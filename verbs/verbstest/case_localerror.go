package verbstest

import (
	"maps"
	"slices"
	"testing"

	"rbd/verbs"
)

var localErrorCases = []Case{
	{"LocalErrorSend", testLocalErrorSend},
	{"LocalErrorWrite", testLocalErrorWrite},
	{"LocalErrorRead", testLocalErrorRead},
	{"LocalErrorRecv", testLocalErrorRecv},
	{"LocalErrorLaterSGE", testLocalErrorLaterSGE},
}

// localFaults are SGEs that no request of the side may use. size is that of
// the region from which they deviate.
func localFaults(e *Env, s *Side, size int, writing bool) map[string]verbs.SGE {
	e.T.Helper()
	good := s.Buffer(size, 1)
	faults := map[string]verbs.SGE{
		"key unknown":            {Addr: good.Addr(0), Length: uint32(size), LKey: deadKey},
		"key 0":                  {Addr: good.Addr(0), Length: uint32(size)},
		"key off by 1":           {Addr: good.Addr(0), Length: uint32(size), LKey: good.MR.LKey() + 1},
		"key off by 2^8":         {Addr: good.Addr(0), Length: uint32(size), LKey: good.MR.LKey() + 1<<8},
		"key off by 2^16":        {Addr: good.Addr(0), Length: uint32(size), LKey: good.MR.LKey() + 1<<16},
		"key off by 2^31":        {Addr: good.Addr(0), Length: uint32(size), LKey: good.MR.LKey() + 1<<31},
		"begins one byte before": {Addr: good.Addr(0) - 1, Length: uint32(size), LKey: good.MR.LKey()},
		"ends one byte behind":   {Addr: good.Addr(1), Length: uint32(size), LKey: good.MR.LKey()},
		"lies behind":            {Addr: good.Addr(size), Length: 1, LKey: good.MR.LKey()},
		"wraps around 2^64":      {Addr: 1<<64 - 8, Length: uint32(size), LKey: good.MR.LKey()},
		"address 0":              {Addr: 0, Length: uint32(size), LKey: good.MR.LKey()},
		"other domain":           e.Region(e.PD(), size, AllAccess).SGE(0, size),
	}
	gone := s.Region(size, AllAccess)
	faults["deregistered"] = gone.SGE(0, size)
	e.Destroy("MR", gone.MR.Dereg)
	if writing {
		faults["no local write"] = s.Region(size, verbs.AccessRemoteRead).SGE(0, size)
	}
	return faults
}

// eachFault runs f with a fresh pair for every fault of the client's, or of the
// server's, SGEs.
func eachFault(e *Env, ofServer, writing bool, f func(p *Pair, sge verbs.SGE)) {
	e.T.Helper()
	const size = 128
	for _, name := range slices.Sorted(maps.Keys(localFaults(e, e.Pair(nil).Client, size, writing))) {
		e.T.Run(name, func(t *testing.T) {
			e := e.in(t)
			beside(e, func(p *Pair) {
				owner := p.Client
				if ofServer {
					owner = p.Server
				}
				f(p, localFaults(e, owner, size, writing)[name])
			})
		})
	}
}

// Protects the memory of the sender's process: a SEND takes from its own regions
// alone, and none of it arrives otherwise.
func testLocalErrorSend(t *testing.T, e *Env) {
	eachFault(e, false, false, func(p *Pair, sge verbs.SGE) {
		to := p.Server.Buffer(256, 9)
		p.Server.PostRecv(verbs.RecvWR{ID: 1, SGEs: to.All()})
		p.Client.Post(verbs.SendWR{ID: 2, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{sge}}, verbs.SendWR{ID: 3})
		p.Client.Send.Fails(2, e.localFault()...)
		p.Client.Send.Flushed(3, 1)
		wantBroken(p)
		p.Server.Recv.Flushed(1, 1)
		WantBytes(p.e.T, "memory of the receive", to.Mem, Filled(256, 9))
	})
}

// Protects the same of an RDMA WRITE.
func testLocalErrorWrite(t *testing.T, e *Env) { localErrorOneSided(e, verbs.WRRDMAWrite) }

// Protects the memory of the reader's process: the answer of the peer lands in
// regions that allow local write alone.
func testLocalErrorRead(t *testing.T, e *Env) { localErrorOneSided(e, verbs.WRRDMARead) }

func localErrorOneSided(e *Env, op verbs.WROpcode) {
	e.T.Helper()
	eachFault(e, false, op == verbs.WRRDMARead, func(p *Pair, sge verbs.SGE) {
		peers := p.Server.Buffer(256, 9)
		p.Client.Post(verbs.SendWR{ID: 2, Opcode: op, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{sge}, RemoteAddr: peers.Addr(0), RKey: peers.MR.RKey()})
		p.Client.Send.Fails(2, e.localFault()...)
		wantBroken(p)
		WantBytes(p.e.T, "the peer's memory", peers.Mem, Filled(256, 9))
	})
}

// Protects the memory of the receiver's process in the same way.
func testLocalErrorRecv(t *testing.T, e *Env) {
	eachFault(e, true, true, func(p *Pair, sge verbs.SGE) {
		from := p.Client.Buffer(128, 9)
		p.Server.PostRecv(verbs.RecvWR{ID: 1, SGEs: []verbs.SGE{sge}}, verbs.RecvWR{ID: 2})
		p.Client.Post(verbs.SendWR{ID: 3, Flags: verbs.SendSignaled, SGEs: []verbs.SGE{from.SGE(0, int(min(sge.Length, 128)))}})
		p.Server.Recv.Fails(1, e.receiveFault(verbs.WCLocProtErr)...)
		p.Server.Recv.Flushed(2, 1)
		p.Client.Send.Fails(3, verbs.WCRemOpErr, verbs.WCRemInvReqErr, verbs.WCSuccess)
		wantBroken(p)
	})
}

// Protects from checks of the first SGE alone: a fault in the last one is found,
// and no half message is delivered.
func testLocalErrorLaterSGE(t *testing.T, e *Env) {
	for _, op := range []verbs.WROpcode{verbs.WRSend, verbs.WRRDMAWrite, verbs.WRRDMARead} {
		if op == verbs.WRRDMARead && e.Device.Attr().MaxSGERead < 3 || e.Device.Attr().MaxSGE < 3 {
			continue
		}
		beside(e, func(p *Pair) {
			c, s := p.Client.Buffer(1000, 1), p.Server.Buffer(1000, 9)
			p.Server.PostRecv(verbs.RecvWR{ID: 1, SGEs: s.All()})
			p.Client.Post(verbs.SendWR{ID: 2, Opcode: op, SGEs: []verbs.SGE{c.SGE(0, 100), c.SGE(200, 100), c.SGE(901, 100)}, RemoteAddr: s.Addr(0), RKey: s.MR.RKey()})
			p.Client.Send.Fails(2, e.localFault()...)
			wantBroken(p)
			p.Server.Recv.Flushed(1, 1)
			if op != verbs.WRRDMARead || !e.VagueErrors {
				WantBytes(t, "the client's memory", c.Mem, Filled(1000, 1))
			}
			WantBytes(t, "the server's memory", s.Mem, Filled(1000, 9))
		})
	}
}
