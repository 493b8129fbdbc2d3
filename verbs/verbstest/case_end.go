package verbstest

import (
	"errors"
	"testing"
	"time"

	"rbd/verbs"
)

var endCases = []Case{
	{"DisconnectClient", testDisconnectClient},
	{"DisconnectServer", testDisconnectServer},
	{"DisconnectBoth", testDisconnectBoth},
	{"DisconnectFinishesWrites", testDisconnectFinishesWrites},
	{"DisconnectOutstanding", testDisconnectOutstanding},
	{"DisconnectTwice", testDisconnectTwice},
	{"ErrWhileUp", testErrWhileUp},
}

// wantOrderly checks that both sides call the end of the connection an orderly one.
func wantOrderly(p *Pair) {
	p.e.T.Helper()
	for _, s := range []*Side{p.Client, p.Server} {
		p.e.WantErr(s.name+": cause of the end", s.Ended(), verbs.ErrDisconnected)
	}
}

// Protects both sides' knowledge of the end: the channel, the state, the cause,
// the flush.
func testDisconnectClient(t *testing.T, e *Env) {
	disconnect(e, e.Pair(nil))
}

// Protects the same when the passive side disconnects.
func testDisconnectServer(t *testing.T, e *Env) {
	disconnect(e, e.Pair(nil).Flip())
}

func disconnect(e *Env, p *Pair) {
	e.T.Helper()
	p.RoundTrip()
	p.Client.PostEmptyRecvs(1, 3)
	p.Server.PostEmptyRecvs(1, 3)
	if err := p.Client.ID.Disconnect(); err != nil {
		e.T.Fatalf("disconnect: %v", err)
	}
	wantOrderly(p)
	p.Client.Recv.Flushed(1, 3)
	p.Server.Recv.Flushed(1, 3)
	p.Quiet()
}

// Protects from sides that wait for each other's goodbye.
func testDisconnectBoth(t *testing.T, e *Env) {
	for range 20 {
		p := e.Pair(nil)
		other := e.Go(p.Server.ID.Disconnect)
		if err := p.Client.ID.Disconnect(); err != nil {
			t.Errorf("disconnect: %v", err)
		}
		if err := other(); err != nil {
			t.Errorf("disconnect from the other side: %v", err)
		}
		wantOrderly(p)
	}
}

// Protects the last answer of a server that hangs up: what has completed before
// Disconnect arrives.
func testDisconnectFinishesWrites(t *testing.T, e *Env) {
	for i := range uint64(20) {
		p := e.Pair(nil)
		from, to := p.Client.Buffer(30000, i), p.Server.Region(30000, AllAccess)
		p.Server.PostRecv(verbs.RecvWR{ID: 1, SGEs: to.All()})
		p.Client.Post(verbs.SendWR{ID: 2, Flags: verbs.SendSignaled, SGEs: from.All()})
		p.Client.Send.OK(2, verbs.WCSend)
		if err := p.Client.ID.Disconnect(); err != nil {
			t.Fatal(err)
		}
		p.Server.Recv.OK(1, verbs.WCRecv)
		WantBytes(t, "last message", to.Mem, from.Mem)
		p.Ended()
	}
}

// Protects from a Disconnect that waits for the peer, and from lost requests:
// with megabytes under way it returns, and all of them complete.
func testDisconnectOutstanding(t *testing.T, e *Env) {
	const n = 40
	p := e.Pair(nil)
	c, s := p.Client.Buffer(1<<20, 1), p.Server.Buffer(1<<20, 2)
	for i := range uint64(n) {
		p.Client.Post(verbs.SendWR{ID: i, Opcode: verbs.WRRDMAWrite + verbs.WROpcode(i%2), Flags: verbs.SendSignaled,
			SGEs: c.All(), RemoteAddr: s.Addr(0), RKey: s.MR.RKey()})
	}
	start := time.Now()
	if err := p.Client.ID.Disconnect(); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d > time.Second {
		t.Errorf("Disconnect took %v", d)
	}
	for i := range uint64(n) {
		if wc := p.Client.Send.Next(); wc.ID != i {
			t.Fatalf("completion %d is of request %d", i, wc.ID)
		}
	}
	p.Ended()
	p.Quiet()
}

// Protects callers on several paths to the same end.
func testDisconnectTwice(t *testing.T, e *Env) {
	p := e.Pair(nil)
	if err := p.Client.ID.Disconnect(); err != nil {
		t.Fatal(err)
	}
	p.Ended()
	for _, s := range []*Side{p.Client, p.Server} {
		if err := s.ID.Disconnect(); err != nil && !errors.Is(err, verbs.ErrState) && !errors.Is(err, verbs.ErrDisconnected) {
			t.Errorf("%s: disconnect when disconnected: %v", s.name, err)
		}
	}
	idle := e.Active(e.Listen().Addr(), nil)
	if err := idle.ID.Disconnect(); err != nil {
		e.WantErr("disconnect what never was connected", err, verbs.ErrState)
	}
}

// Protects those who ask early: a connection that is up has no error.
func testErrWhileUp(t *testing.T, e *Env) {
	p := e.Pair(nil)
	for _, s := range []*Side{p.Client, p.Server} {
		s.Up()
		if err := s.ID.Err(); err != nil {
			t.Errorf("%s: error of a connection that is up: %v", s.name, err)
		}
	}
}
