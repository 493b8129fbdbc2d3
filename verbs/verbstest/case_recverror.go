package verbstest

import (
	"testing"

	"rbd/verbs"
)

var receiveErrorCases = []Case{
	{"RecvTooSmall", testRecvTooSmall},
	{"RecvTooSmallLarge", testRecvTooSmallLarge},
	{"RecvNotPosted", testRecvNotPosted},
	{"RecvUsedUp", testRecvUsedUp},
}

// tooSmall sends n bytes to a receive of room bytes in two SGEs.
func tooSmall(e *Env, n, room int) {
	e.T.Helper()
	beside(e, func(p *Pair) {
		to, from := p.Server.Buffer(room+100, 9), p.Client.Buffer(n, 1)
		p.Client.PostEmptyRecvs(70, 2)
		p.Server.PostRecv(verbs.RecvWR{ID: 1, SGEs: []verbs.SGE{to.SGE(0, room/2), to.SGE(room/2, room-room/2)}}, verbs.RecvWR{ID: 2, SGEs: to.All()})
		p.Client.Post(verbs.SendWR{ID: 3, Flags: verbs.SendSignaled, SGEs: from.All()})
		p.Server.Recv.Fails(1, e.receiveFault(verbs.WCLocLenErr)...)
		p.Server.Recv.Flushed(2, 1)
		p.Client.Send.Fails(3, append(e.receiveFault(verbs.WCRemOpErr), verbs.WCRemInvReqErr, verbs.WCSuccess)...)
		wantBroken(p)
		p.Client.Recv.Flushed(70, 2)
		p.Quiet()
		WantBytes(e.T, "memory behind the receive", to.Mem[room:], Filled(room+100, 9)[room:])
	})
}

// Protects memory behind a receive: a message that is a byte too long does not
// reach it, and both sides learn of it.
func testRecvTooSmall(t *testing.T, e *Env) {
	tooSmall(e, 65, 64)
	tooSmall(e, 1, 0)
	tooSmall(e, 4097, 4096)
}

// Protects it from messages of many segments, of which the first ones fit.
func testRecvTooSmallLarge(t *testing.T, e *Env) { tooSmall(e, 1<<20, 300000) }

// Protects receivers without flow control from messages that they have no place
// for.
func testRecvNotPosted(t *testing.T, e *Env) {
	beside(e, func(p *Pair) {
		from := p.Client.Buffer(64, 1)
		p.Client.PostEmptyRecvs(70, 2)
		p.Client.Post(verbs.SendWR{ID: 3, Flags: verbs.SendSignaled, SGEs: from.All()})
		p.Client.Send.Fails(3, verbs.WCRemOpErr, verbs.WCRNRRetryExcErr, verbs.WCSuccess)
		wantBroken(p)
		p.Client.Recv.Flushed(70, 2)
		p.Quiet()
	})
}

// Protects the messages before the one that finds no receive: they are delivered.
func testRecvUsedUp(t *testing.T, e *Env) {
	beside(e, func(p *Pair) {
		to, from := p.Server.Region(3*64, AllAccess), p.Client.Buffer(4*64, 1)
		for i := range 3 {
			p.Server.PostRecv(verbs.RecvWR{ID: uint64(i), SGEs: []verbs.SGE{to.SGE(64*i, 64)}})
		}
		for i := range 4 {
			p.Client.Post(verbs.SendWR{ID: uint64(i), SGEs: []verbs.SGE{from.SGE(64*i, 64)}})
		}
		for i := range uint64(3) {
			p.Server.Recv.OK(i, verbs.WCRecv)
		}
		wantBroken(p)
		WantBytes(t, "messages that fit", to.Mem, from.Mem[:3*64])
	})
}
