package verbstest

import (
	"maps"
	"slices"
	"testing"

	"rbd/verbs"
)

var remoteErrorCases = []Case{
	{"RemoteErrorRead", testRemoteErrorRead},
	{"RemoteErrorWrite", testRemoteErrorWrite},
	{"RemoteErrorLarge", testRemoteErrorLarge},
	{"KeyAfterInvalidate", testKeyAfterInvalidate},
	{"KeyAfterConnection", testKeyAfterConnection},
	{"InvalidateUnknown", testInvalidateUnknown},
	{"InvalidateOtherDomain", testInvalidateOtherDomain},
}

// place is what a request for the peer's memory names.
type place struct {
	addr uint64
	rkey uint32
}

// remoteFaults are places of the peer that a request of n bytes may not touch,
// and the regions that must stay as they are, filled from seed 1.
func remoteFaults(e *Env, s *Side, n int, op verbs.WROpcode) (faults map[string]place, regions []*Region) {
	e.T.Helper()
	good, gone, other := s.Buffer(n, 1), s.Buffer(n, 1), e.Region(e.PD(), n, AllAccess)
	locked := s.Region(n, AllAccess&^map[verbs.WROpcode]verbs.Access{
		verbs.WRRDMARead: verbs.AccessRemoteRead, verbs.WRRDMAWrite: verbs.AccessRemoteWrite}[op])
	Fill(other.Mem, 1)
	Fill(locked.Mem, 1)
	e.Destroy("MR", gone.MR.Dereg)
	key := good.MR.RKey()
	return map[string]place{
		"key unknown":            {good.Addr(0), deadKey},
		"key 0":                  {good.Addr(0), 0},
		"key off by 1":           {good.Addr(0), key + 1},
		"key off by 2^8":         {good.Addr(0), key + 1<<8},
		"key off by 2^16":        {good.Addr(0), key + 1<<16},
		"key off by 2^31":        {good.Addr(0), key + 1<<31},
		"begins one byte before": {good.Addr(0) - 1, key},
		"ends one byte behind":   {good.Addr(1), key},
		"lies behind":            {good.Addr(n), key},
		"wraps around 2^64":      {1<<64 - 8, key},
		"address 0":              {0, key},
		"offset, not address":    {8, key},
		"other domain":           {other.Addr(0), other.MR.RKey()},
		"deregistered":           {gone.Addr(0), gone.MR.RKey()},
		"no right":               {locked.Addr(0), locked.MR.RKey()},
	}, []*Region{good, gone, other, locked}
}

func testRemoteFaults(e *Env, op verbs.WROpcode) {
	e.T.Helper()
	const n = 128
	faults, _ := remoteFaults(e, e.Pair(nil).Server, n, op)
	if op == verbs.WRRDMARead && e.LaxReads {
		delete(faults, "no right")
	}
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		e.T.Run(name, func(t *testing.T) {
			e := e.in(t)
			beside(e, func(p *Pair) {
				faults, regions := remoteFaults(e, p.Server, n, op)
				own := p.Client.Buffer(n, 3)
				p.remoteFault(op, own.All(), faults[name].addr, faults[name].rkey)
				WantBytes(t, "the client's memory", own.Mem, Filled(n, 3))
				for _, r := range regions {
					WantBytes(t, "the server's memory", r.Mem, Filled(n, 1))
				}
			})
		})
	}
}

// Protects the memory of the peer's process: an RDMA READ gets what was
// registered for it, of the same domain, and not a byte beside.
func testRemoteErrorRead(t *testing.T, e *Env) { testRemoteFaults(e, verbs.WRRDMARead) }

// Protects it from being overwritten in the same way.
func testRemoteErrorWrite(t *testing.T, e *Env) { testRemoteFaults(e, verbs.WRRDMAWrite) }

// Protects the end of a region from a request that begins well and is cut in
// many segments: the byte behind the region is not read or written.
func testRemoteErrorLarge(t *testing.T, e *Env) {
	for _, op := range []verbs.WROpcode{verbs.WRRDMARead, verbs.WRRDMAWrite} {
		beside(e, func(p *Pair) {
			const n = 1 << 20
			s, c := p.Server.Region(n, AllAccess), p.Client.Buffer(n+1, 1)
			p.remoteFault(op, c.All(), s.Addr(0), s.MR.RKey())
		})
	}
}

// Protects a region that its owner has invalidated through the peer's message.
func testKeyAfterInvalidate(t *testing.T, e *Env) {
	e.Need(e.Device.Attr().RemoteInvalidate, "it does not take SEND with invalidate")
	for _, op := range []verbs.WROpcode{verbs.WRRDMARead, verbs.WRRDMAWrite} {
		beside(e, func(p *Pair) {
			s, c := p.Server.Buffer(64, 1), p.Client.Buffer(64, 2)
			p.Server.PostEmptyRecvs(1, 1)
			p.Client.Post(verbs.SendWR{ID: 2, Opcode: verbs.WRSendWithInv, Flags: verbs.SendSignaled, InvalidateRKey: s.MR.RKey()})
			p.Server.Recv.OK(1, verbs.WCRecv)
			p.Client.Send.OK(2, verbs.WCSend)
			p.remoteFault(op, c.All(), s.Addr(0), s.MR.RKey())
			WantBytes(t, "invalidated region", s.Mem, Filled(64, 1))
		})
	}
}

// Protects memory when its connection is gone: the old peer's work is flushed,
// and the key does not work on a connection with another domain.
func testKeyAfterConnection(t *testing.T, e *Env) {
	p := e.Pair(nil)
	s, c := p.Server.Buffer(64, 1), p.Client.Buffer(64, 2)
	p.Write(c.All(), s.Addr(0), s.MR.RKey())
	if err := p.Server.ID.Disconnect(); err != nil {
		t.Fatal(err)
	}
	p.Ended()
	Fill(s.Mem, 3)
	p.Client.Post(verbs.SendWR{ID: 5, Opcode: verbs.WRRDMAWrite, SGEs: c.All(), RemoteAddr: s.Addr(0), RKey: s.MR.RKey()})
	p.Client.Send.Flushed(5, 1)
	beside(e, func(q *Pair) {
		own := q.Client.Buffer(64, 4)
		q.remoteFault(verbs.WRRDMAWrite, own.All(), s.Addr(0), s.MR.RKey())
	})
	WantBytes(t, "memory of the old connection", s.Mem, Filled(64, 3))
}

// Protects receivers from believing an invalidation that was none.
func testInvalidateUnknown(t *testing.T, e *Env) {
	e.Need(e.Device.Attr().RemoteInvalidate, "it does not take SEND with invalidate")
	beside(e, func(p *Pair) {
		p.refused(verbs.SendWR{Opcode: verbs.WRSendWithInv, InvalidateRKey: deadKey}, verbs.WCRemOpErr, verbs.WCRemAccessErr, verbs.WCRemInvReqErr)
		if wc := p.Server.Recv.Next(); wc.Status == verbs.WCSuccess {
			t.Errorf("receive completion %+v of a message that invalidates nothing", wc)
		}
	})
}

// Protects the regions of one domain from messages in another.
func testInvalidateOtherDomain(t *testing.T, e *Env) {
	e.Need(e.Device.Attr().RemoteInvalidate, "it does not take SEND with invalidate")
	owner := e.Pair(nil)
	s, c := owner.Server.Buffer(64, 1), owner.Client.Region(64, AllAccess)
	beside(e, func(p *Pair) {
		p.refused(verbs.SendWR{Opcode: verbs.WRSendWithInv, InvalidateRKey: s.MR.RKey()}, verbs.WCRemOpErr, verbs.WCRemAccessErr, verbs.WCRemInvReqErr)
	})
	owner.Read(c.All(), s.Addr(0), s.MR.RKey())
	WantBytes(t, "region that a stranger wanted to end", c.Mem, s.Mem)
}
