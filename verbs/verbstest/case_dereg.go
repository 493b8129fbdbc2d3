package verbstest

import (
	"testing"
	"time"

	"rbd/verbs"
)

var deregCases = []Case{
	{"DeregWhileRead", testDeregWhileRead},
	{"DeregWhileWritten", testDeregWhileWritten},
	{"DeregWhileSending", testDeregWhileSending},
	{"DeregWhileReceiving", testDeregWhileReceiving},
	{"DeregWhileReading", testDeregWhileReading},
	{"DeregUnused", testDeregUnused},
}

const deregSize, deregWork = 512 << 10, 24

// deregDuring starts transfers by work, takes the region out of service in the
// midst of them and unmaps it: who touches it then dies by SIGSEGV. The bystander
// must live.
func deregDuring(e *Env, work func(p *Pair, own, peers *Region), victim func(own, peers *Region) *Region) {
	e.T.Helper()
	for round := range 8 {
		beside(e, func(p *Pair) {
			own, peers := p.Client.Buffer(deregSize, 1), p.Server.Buffer(deregSize, 2)
			work(p, own, peers)
			time.Sleep(time.Duration(round*round) * 100 * time.Microsecond)
			victim(own, peers).Close()
			// All that was posted completes, whether it came before or after.
			for id := range uint64(deregWork) {
				if wc := p.Client.Send.Next(); wc.ID != id {
					e.T.Fatalf("completion %d is of request %d", id, wc.ID)
				}
			}
		})
	}
}

func ofServer(_, peers *Region) *Region { return peers }
func ofClient(own, _ *Region) *Region   { return own }

// oneSided posts READs or WRITEs of the whole region.
func oneSided(op verbs.WROpcode) func(p *Pair, own, peers *Region) {
	return func(p *Pair, own, peers *Region) {
		for id := range uint64(deregWork) {
			p.Client.Post(verbs.SendWR{ID: id, Opcode: op, Flags: verbs.SendSignaled, SGEs: own.All(), RemoteAddr: peers.Addr(0), RKey: peers.MR.RKey()})
		}
	}
}

func messages(p *Pair, own, peers *Region) {
	for id := range uint64(deregWork) {
		p.Server.PostRecv(verbs.RecvWR{ID: id, SGEs: peers.All()})
		p.Client.Post(verbs.SendWR{ID: id, Flags: verbs.SendSignaled, SGEs: own.All()})
	}
}

// Protects memory that the peer is reading when it is deregistered and unmapped.
func testDeregWhileRead(t *testing.T, e *Env) { deregDuring(e, oneSided(verbs.WRRDMARead), ofServer) }

// Protects memory that the peer is writing.
func testDeregWhileWritten(t *testing.T, e *Env) {
	deregDuring(e, oneSided(verbs.WRRDMAWrite), ofServer)
}

// Protects memory that is being sent.
func testDeregWhileSending(t *testing.T, e *Env) { deregDuring(e, messages, ofClient) }

// Protects memory of posted receives.
func testDeregWhileReceiving(t *testing.T, e *Env) { deregDuring(e, messages, ofServer) }

// Protects memory that answers to RDMA READs are landing in.
func testDeregWhileReading(t *testing.T, e *Env) {
	deregDuring(e, oneSided(verbs.WRRDMARead), ofClient)
}

// Protects connections from the end of regions that they don't use.
func testDeregUnused(t *testing.T, e *Env) {
	p := e.Pair(nil)
	own, peers := p.Client.Buffer(deregSize, 1), p.Server.Buffer(deregSize, 2)
	bystander := p.Server.Buffer(4096, 3)
	oneSided(verbs.WRRDMAWrite)(p, own, peers)
	bystander.Close()
	for id := range uint64(deregWork) {
		p.Client.Send.OK(id, verbs.WCRDMAWrite)
	}
	p.Write(nil, 0, 0)
	WantBytes(t, "memory written meanwhile", peers.Mem, own.Mem)
}
