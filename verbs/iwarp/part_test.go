package iwarp

import (
	"errors"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rbd/verbs"
)

// slowReader is a handler that stops at its first completion, so that the stream backs
// up, and counts the messages that have come.
type slowReader struct {
	stopped  chan struct{}
	released chan struct{}
	calls    atomic.Int32
	came     atomic.Int32
}

func newSlowReader() *slowReader {
	return &slowReader{stopped: make(chan struct{}), released: make(chan struct{})}
}

func (r *slowReader) handle(wcs []verbs.WC) {
	if r.calls.Add(1) == 1 {
		close(r.stopped)
	}
	<-r.released
	for _, wc := range wcs {
		if wc.Status == verbs.WCSuccess && wc.Opcode == verbs.WCRecv {
			r.came.Add(1)
		}
	}
}

// Together the messages of a backlog are more than sockets hold.
const (
	backlog     = 250
	backlogSize = 64 << 10
)

func (s *side) recvBacklog(t testing.TB) {
	t.Helper()
	for i := range uint64(backlog) {
		must(t, s.qp.PostRecv([]verbs.RecvWR{{ID: i, SGEs: s.sge(0, backlogSize)}}))
	}
}

func (s *side) sendBacklog(t testing.TB) {
	t.Helper()
	for i := range uint64(backlog) {
		must(t, s.qp.PostSend([]verbs.SendWR{{ID: i, SGEs: s.sge(0, backlogSize), Flags: verbs.SendSignaled}}))
	}
}

// ended waits for the end of the connection.
func (s *side) ended(t testing.TB) error {
	t.Helper()
	select {
	case <-s.id.Disconnected():
		return s.id.Err()
	case <-time.After(10 * time.Second):
		t.Fatal("the connection has not ended")
		return nil
	}
}

// Protects the answers of a target that ends a connection: what completed with success
// comes, though the QP is destroyed at once, the host is slow to read, and has one more
// command meanwhile. The host learns that the stream broke off.
func TestAnswersOutliveDestroy(t *testing.T) {
	r := newSlowReader()
	a, b := tcpSides(t, "", backlogSize, r.handle, nil)
	a.recvBacklog(t)
	b.sendBacklog(t)
	<-r.stopped
	must(t, b.id.Disconnect())
	<-b.id.Disconnected()
	must(t, b.qp.Destroy())
	sent := int32(0)
	for _, wc := range b.take(t, backlog) {
		if wc.Status == verbs.WCSuccess {
			sent++
		}
	}
	must(t, a.qp.PostSend([]verbs.SendWR{{ID: 1000, SGEs: a.sge(0, 64)}}))
	time.Sleep(20 * time.Millisecond) // it has come by now
	close(r.released)
	if err := a.ended(t); !errors.Is(err, errTruncated) && !errors.Is(err, verbs.ErrDisconnected) {
		t.Errorf("the end: %v", err)
	}
	must(t, a.id.Destroy())
	if came := r.came.Load(); came < sent || sent == 0 {
		t.Errorf("%d messages came, %d completed with success", came, sent)
	}
}

// Protects the reason of an end: the Terminate of either side comes, though that side
// destroys the connection as soon as it has ended, and the other goes on sending.
func TestTerminateOutlivesDestroy(t *testing.T) {
	for _, refusing := range []string{"active", "passive"} {
		for range 5 {
			x, y := tcpSides(t, "", 4<<20, nil, nil)
			if refusing == "active" {
				x, y = y, x
			}
			var wrs []verbs.SendWR
			for range 8 {
				wrs = append(wrs, verbs.SendWR{Opcode: verbs.WRRDMAWrite, SGEs: x.sge(0, 4<<20), RemoteAddr: y.mr.Addr(), RKey: y.mr.RKey() ^ 1})
			}
			destroyed := make(chan error, 1)
			go func() {
				<-y.id.Disconnected()
				destroyed <- y.id.Destroy()
			}()
			must(t, x.qp.PostSend(wrs))
			var remote *remoteError
			if err := x.ended(t); !errors.As(err, &remote) {
				t.Errorf("%s side refuses: the other is told %v", refusing, err)
			}
			must(t, <-destroyed)
		}
	}
}

// Protects the last messages of a host that ends a connection in order, and its target
// from taking that for a loss.
func TestActiveEndsInOrder(t *testing.T) {
	const n = 100
	for range 5 {
		a, b := tcpSides(t, "", 4096, nil, nil)
		var want []uint64
		for i := range uint64(n) {
			must(t, b.qp.PostRecv([]verbs.RecvWR{{ID: i, SGEs: b.sge(0, 4096)}}))
			want = append(want, i)
		}
		for range n {
			must(t, a.qp.PostSend([]verbs.SendWR{{SGEs: a.sge(0, 4096)}}))
		}
		must(t, a.id.Disconnect())
		must(t, a.id.Destroy())
		b.ok(t, want...)
		if err := b.ended(t); !errors.Is(err, verbs.ErrDisconnected) {
			t.Errorf("the end: %v", err)
		}
	}
}

// Protects data from old commands: when a host has given a connection up whose peer
// does not take what was sent, its TCP sends nothing of it any more.
func TestActiveGivesUp(t *testing.T) {
	r := newSlowReader()
	a, b := tcpSides(t, "", backlogSize, nil, r.handle)
	b.recvBacklog(t)
	a.sendBacklog(t)
	<-r.stopped
	must(t, a.id.Disconnect())
	begin := time.Now()
	must(t, a.id.Destroy())
	if d := time.Since(begin); d > lingerTime/2 {
		t.Errorf("Destroy took %v", d)
	}
	close(r.released)
	if err := b.ended(t); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the end: %v", err)
	}
	must(t, b.id.Destroy())
}

// childAddr tells a process of this test that it is the child, and where to connect.
const childAddr = "RBD_TEST_IWARP_CHILD"

// Protects data from old commands of a host that was killed: its kernel sends nothing
// of them any more.
func TestActiveIsKilled(t *testing.T) {
	if addr := os.Getenv(childAddr); addr != "" {
		sendBacklogTo(t, addr)
	}
	p := New()
	l, err := p.Listen(background(t), verbs.Addr{Fabric: Name, Host: "127.0.0.1", Port: "0"})
	must(t, err)
	defer l.Close()
	exe, err := os.Executable()
	must(t, err)
	child := exec.CommandContext(t.Context(), exe, "-test.run=^TestActiveIsKilled$")
	child.Env = append(os.Environ(), childAddr+"="+l.Addr().String())
	must(t, child.Start())
	id, err := l.GetRequest(background(t))
	must(t, err)
	r := newSlowReader()
	b := newSide(t, p.dev, r.handle, backlogSize).on(t, id)
	b.recvBacklog(t)
	_, err = id.Accept(background(t), verbs.ConnParam{})
	must(t, err)
	<-r.stopped
	must(t, child.Process.Kill())
	_ = child.Wait() // it was killed
	close(r.released)
	if err := b.ended(t); !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("the end: %v", err)
	}
	must(t, b.id.Destroy())
}

// sendBacklogTo is the child: it sends what its peer does not take.
func sendBacklogTo(t *testing.T, addr string) {
	to, err := verbs.ParseAddr(addr, "0")
	must(t, err)
	p := New()
	id, err := p.ResolveAddr(background(t), to)
	must(t, err)
	a := newSide(t, p.dev, nil, backlogSize).on(t, id)
	_, err = id.Connect(background(t), verbs.ConnParam{})
	must(t, err)
	a.sendBacklog(t)
	time.Sleep(time.Minute) // until it is killed
}
