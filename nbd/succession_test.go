package nbd_test

import (
	"sync"
	"testing"
	"time"

	"rbd/nbd"
	"rbd/nbd/nbdtest"
)

// awayDevice keeps the requests of each client until that one is gone, as a device
// does whose target is away.
type awayDevice struct{ *nbdtest.RAM }

type awayQueue struct {
	nbd.Queue // for its memory
	owner     nbd.Owner

	mu        sync.Mutex
	kept      []*nbd.Request
	abandoned bool
}

func (d awayDevice) OpenQueue(o nbd.Owner) (nbd.Queue, error) {
	q, err := d.RAM.OpenQueue(o)
	return &awayQueue{Queue: q, owner: o}, err
}

func (q *awayQueue) Submit(reqs []*nbd.Request) {
	q.mu.Lock()
	if !q.abandoned {
		q.kept = append(q.kept, reqs...)
		q.mu.Unlock()
		return
	}
	q.mu.Unlock()
	q.giveUp(reqs)
}

func (q *awayQueue) Abandon() {
	q.mu.Lock()
	kept := q.kept
	q.kept, q.abandoned = nil, true
	q.mu.Unlock()
	q.giveUp(kept)
}

func (q *awayQueue) giveUp(reqs []*nbd.Request) {
	for _, r := range reqs {
		r.Err = nbd.ErrShutdown
	}
	if len(reqs) > 0 {
		q.owner.Complete(reqs)
	}
}

// leave says NBD_CMD_DISC, and expects the server to close without waiting for
// anybody.
func leave(t *testing.T, c *nbdtest.Client) {
	t.Helper()
	if err := c.Send(nbdtest.Request{Cmd: nbdtest.CmdDisc}); err != nil {
		t.Fatal(err)
	}
	expectClosed(t, c)
}

// Protects a successor from what a dead client has left with a device that keeps
// requests back: the device learns of the death although the server can't read the
// end of the stream, behind more requests than it takes.
func TestAbandon(t *testing.T) {
	s := start(t, awayDevice{newRAM(t, 1<<20)})
	for _, network := range []string{"unix", "tcp"} {
		if network != "unix" {
			s.listen(t, network)
		}
		for _, n := range []uint64{1, nbd.MaxRequests, nbd.MaxRequests + 50} {
			c := s.open(t, nbdtest.Simple)
			for i := range n {
				if err := c.Send(nbdtest.Request{Cmd: nbdtest.CmdWrite, Cookie: i, Payload: make([]byte, 64)}); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(10 * time.Millisecond) // mostly, all slots are in use then
			c.Close()
			leave(t, s.open(t, nbdtest.Simple)) // when nothing of the dead one is left
		}
	}
}

// Protects the order of clients: what a client sends is done when all is done that
// those before it had in hand who have hung up. Nobody waits for a client that is
// there, or has left with everything answered.
func TestSuccession(t *testing.T) {
	ram, started, finish := newHangingRAM(t)
	s := start(t, ram)
	old := s.open(t, nbdtest.Simple)
	if err := old.Send(nbdtest.Request{Cmd: nbdtest.CmdWrite, Payload: []byte("old")}); err != nil {
		t.Fatal(err)
	}
	<-started
	s.open(t, nbdtest.Simple).Close()
	leave(t, s.open(t, nbdtest.Simple))
	old.Close()
	next := s.open(t, nbdtest.Simple)
	if err := next.Send(nbdtest.Request{Cmd: nbdtest.CmdFlush, Flags: 0xffff}); err != nil { // refused as soon as it is read
		t.Fatal(err)
	}
	next.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
	if r, err := next.Recv(); err == nil {
		t.Fatalf("the server reads before the old write is done: %+v", r)
	}
	next.SetReadDeadline(time.Now().Add(patience))
	close(finish)
	if _, err := next.Recv(); err != nil {
		t.Fatal(err)
	}
	if r := do(t, next, nbdtest.Request{Cmd: nbdtest.CmdRead, Length: 3}); string(r.Data) != "old" {
		t.Errorf("read %q", r.Data)
	}
}

// Protects a client from waiting for ever: when those before it can't be done with, it
// is told so by the end of its connection, and so is it when the server stops.
func TestSuccessionIsBounded(t *testing.T) {
	ram, started, finish := newHangingRAM(t)
	s := start(t, ram, nbd.SetSettle(30*time.Millisecond))
	old := s.open(t, nbdtest.Simple)
	if err := old.Send(nbdtest.Request{Cmd: nbdtest.CmdWrite, Payload: []byte("old")}); err != nil {
		t.Fatal(err)
	}
	<-started
	old.Close()
	next := s.open(t, nbdtest.Simple)
	if err := next.Send(nbdtest.Request{Cmd: nbdtest.CmdWrite, Payload: []byte("new")}); err != nil {
		t.Fatal(err)
	}
	if n := len(expectClosed(t, next)); n != 0 {
		t.Errorf("%d bytes for a request that could not be done", n)
	}
	close(finish)
	leave(t, s.open(t, nbdtest.Simple))
	if string(ram.Data[:3]) != "old" {
		t.Errorf("the disk has %q", ram.Data[:3])
	}
}
