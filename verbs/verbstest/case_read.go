package verbstest

import (
	"testing"

	"rbd/verbs"
)

var readCases = []Case{
	{"ReadDepthOne", testReadDepthOne},
	{"ReadsBeyondDepth", testReadsBeyondDepth},
	{"ReadDepthZero", testReadDepthZero},
	{"ReadsBothWays", testReadsBothWays},
}

// readMany posts n READs at once on a connection of the depth, and checks them.
func readMany(e *Env, depth, n, size int) {
	e.T.Helper()
	p := e.PairOf(func(o *SideOpts) { o.Param = verbs.ConnParam{ResponderResources: depth, InitiatorDepth: depth} })
	from, to := p.Server.Buffer(n*size, 1), p.Client.Region(n*size, AllAccess)
	for i := range n {
		p.Client.Post(verbs.SendWR{ID: uint64(i), Opcode: verbs.WRRDMARead, Flags: verbs.SendSignaled,
			SGEs: []verbs.SGE{to.SGE(i*size, size)}, RemoteAddr: from.Addr(i * size), RKey: from.MR.RKey()})
	}
	for i := range uint64(n) {
		p.Client.Send.OK(i, verbs.WCRDMARead)
	}
	WantBytes(e.T, "memory read", to.Mem, from.Mem)
	p.Client.Up()
	p.Server.Up()
}

// Protects peers with few resources: with a depth of one, READs go one by one.
func testReadDepthOne(t *testing.T, e *Env) { readMany(e, 1, 60, 3000) }

// Protects them at every depth: READs beyond it wait their turn in the queue.
func testReadsBeyondDepth(t *testing.T, e *Env) {
	a := e.Device.Attr()
	for _, depth := range []int{2, 3, 7, 16} {
		if depth <= min(a.MaxQPRdAtom, a.MaxQPInitRdAtom) {
			readMany(e, depth, 60, 20000)
		}
	}
}

// Protects a peer that holds no READs: one is refused here, at the post or when
// it is executed, and does not wait forever.
func testReadDepthZero(t *testing.T, e *Env) {
	p := e.PairOf(func(o *SideOpts) { o.Param = verbs.ConnParam{} })
	from, to := p.Server.Buffer(64, 1), p.Client.Buffer(64, 2)
	p.Message(to.All(), from.All())
	err := p.Client.QP.PostSend([]verbs.SendWR{{ID: 1, Opcode: verbs.WRRDMARead, Flags: verbs.SendSignaled,
		SGEs: to.All(), RemoteAddr: from.Addr(0), RKey: from.MR.RKey()}})
	if err != nil {
		e.WantPostErr("a READ with depth 0", err, 0, verbs.ErrInvalid, verbs.ErrState, verbs.ErrNotSupported)
		return
	}
	if wc := p.Client.Send.Next(); wc.Status == verbs.WCSuccess {
		t.Error("a READ succeeded on a connection for none")
	}
	p.Ended()
}

// Protects from sides that wait for each other: both have all their READs under
// way, and answer those of the other meanwhile.
func testReadsBothWays(t *testing.T, e *Env) {
	const n, size = 40, 100 << 10
	p := e.Pair(nil)
	sides := []*Side{p.Client, p.Server}
	from := []*Region{p.Client.Buffer(size, 1), p.Server.Buffer(size, 2)}
	var to []*Region
	for i, s := range sides {
		to = append(to, s.Region(size, AllAccess))
		for id := range uint64(n) {
			s.Post(verbs.SendWR{ID: id, Opcode: verbs.WRRDMARead, Flags: verbs.SendSignaled, SGEs: to[i].All(),
				RemoteAddr: from[1-i].Addr(0), RKey: from[1-i].MR.RKey()})
		}
	}
	for i, s := range sides {
		for id := range uint64(n) {
			s.Send.OK(id, verbs.WCRDMARead)
		}
		WantBytes(t, s.name+"'s memory", to[i].Mem, from[1-i].Mem)
	}
}
