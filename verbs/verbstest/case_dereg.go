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
// must live. If the region was the client's, some request failed for it, and says
// so; those that wait for it, or for READs before it, may be flushed.
func deregDuring(e *Env, work func(p *Pair, own, peers *Region), ofServer bool) {
	e.T.Helper()
	for round := range 8 {
		beside(e, func(p *Pair) {
			own, peers := p.Client.Buffer(deregSize, 1), p.Server.Buffer(deregSize, 2)
			work(p, own, peers)
			time.Sleep(time.Duration(round*round) * 100 * time.Microsecond)
			if ofServer {
				peers.Close()
			} else {
				own.Close()
			}
			// All that was posted completes, whether it came before or after.
			statuses := map[verbs.WCStatus]int{}
			for id := range uint64(deregWork) {
				wc := p.Client.Send.Next()
				if wc.ID != id {
					e.T.Fatalf("completion %d is of request %d", id, wc.ID)
				}
				statuses[wc.Status]++
			}
			if !ofServer && statuses[verbs.WCSuccess] < deregWork && statuses[verbs.WCLocProtErr] == 0 && !e.VagueErrors {
				e.T.Errorf("round %d: no LOC_PROT_ERR among the completions %v", round, statuses)
			}
		})
	}
}

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
func testDeregWhileRead(t *testing.T, e *Env) {
	deregDuring(e, oneSided(verbs.WRRDMARead), true)
}

// Protects memory that the peer is writing.
func testDeregWhileWritten(t *testing.T, e *Env) {
	deregDuring(e, oneSided(verbs.WRRDMAWrite), true)
}

// Protects memory that is being sent.
func testDeregWhileSending(t *testing.T, e *Env) { deregDuring(e, messages, false) }

// Protects memory of posted receives.
func testDeregWhileReceiving(t *testing.T, e *Env) { deregDuring(e, messages, true) }

// Protects memory that answers to RDMA READs are landing in.
func testDeregWhileReading(t *testing.T, e *Env) {
	deregDuring(e, oneSided(verbs.WRRDMARead), false)
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
