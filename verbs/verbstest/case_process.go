package verbstest

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"rbd/verbs"
)

var processCases = []Case{
	{"OneSidedProcess", testOneSidedProcess},
	{"PeerKilled", testPeerKilled},
	{"PeerStopped", testPeerStopped},
}

// Protects what one-sided means, seen from another process: its one goroutine
// sleeps in a read of standard input, and its memory is read and written.
func testOneSidedProcess(t *testing.T, e *Env) {
	p := e.Process(nil)
	pair := &Pair{Client: p.Side, e: e}
	mem := p.Region(peerMemory, AllAccess)
	pair.Read(mem.All(), p.RemoteAddr, p.RKey)
	WantBytes(t, "memory of the process", mem.Mem, Filled(peerMemory, peerSeed))
	Fill(mem.Mem, 1)
	pair.Write(mem.All(), p.RemoteAddr, p.RKey)
	fillByte(mem.Mem, 0)
	pair.Read(mem.All(), p.RemoteAddr, p.RKey)
	WantBytes(t, "memory of the process, written before", mem.Mem, Filled(peerMemory, 1))
}

// Protects from peers that die: the connection ends, all work completes once, what
// comes later is flushed, the cause is told, and other connections go on. A device
// serves READs of a process that has been stopped, a provider in software does not.
func testPeerKilled(t *testing.T, e *Env) {
	other := e.Pair(nil)
	p := e.Process(nil)
	mem := p.Region(peerMemory, AllAccess)
	p.PostEmptyRecvs(100, 5)
	p.Signal(syscall.SIGSTOP)
	const n = 20
	read := verbs.SendWR{Opcode: verbs.WRRDMARead, Flags: verbs.SendSignaled, SGEs: mem.All(), RemoteAddr: p.RemoteAddr, RKey: p.RKey}
	for read.ID = range n {
		p.Post(read)
	}
	time.Sleep(calm)
	p.Signal(syscall.SIGKILL)
	p.Ended()
	failed := false
	for i := range uint64(n) {
		wc := p.Send.Next()
		if wc.ID != i || failed && wc.Status == verbs.WCSuccess {
			t.Fatalf("completion %d: request %d, %v", i, wc.ID, wc.Status)
		}
		failed = failed || wc.Status != verbs.WCSuccess
	}
	p.Recv.Flushed(100, 5)
	read.ID = n
	p.Post(read)
	p.Send.Flushed(n, 1)
	e.Quiet(p.Send, p.Recv)
	other.RoundTrip()
}

// Protects posters from peers that stop reading: no post waits, the full queue
// says so, other connections go on, and all of it is done when the peer goes on.
func testPeerStopped(t *testing.T, e *Env) {
	other := e.Pair(nil)
	p := e.Process(func(o *SideOpts) { o.Cap.MaxSendWR = 32 })
	mem := p.Buffer(peerMemory, 2)
	p.Signal(syscall.SIGSTOP)
	const limit = 256
	var posted uint64
	var full error
	for full == nil && posted < limit {
		start := time.Now()
		full = p.QP.PostSend([]verbs.SendWR{{ID: posted, Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled,
			SGEs: mem.All(), RemoteAddr: p.RemoteAddr, RKey: p.RKey}})
		if d := time.Since(start); d > 2*time.Second {
			t.Fatalf("PostSend waited for %v", d)
		}
		if full == nil {
			posted++
		}
	}
	if full != nil && !errors.Is(full, verbs.ErrNoMemory) {
		t.Errorf("post to a peer that has stopped: %v", full)
	}
	t.Logf("%d RDMA WRITEs of 1 MiB posted", posted)
	other.RoundTrip()
	p.Up()
	p.Signal(syscall.SIGCONT)
	for i := range posted {
		p.Send.OK(i, verbs.WCRDMAWrite)
	}
	(&Pair{Client: p.Side, e: e}).Read(mem.All(), p.RemoteAddr, p.RKey)
	WantBytes(t, "memory of the process", mem.Mem, Filled(peerMemory, 2))
}
