package iwarp

import (
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rbd/internal/sockio"
	"rbd/verbs"
	"rbd/verbs/iwarp/internal/frame"
)

// fullSocket takes a number of bytes and is full then, until it is opened.
type fullSocket struct {
	*segmenter
	takes int
	open  chan struct{}
}

func newFullSocket(takes int) *fullSocket {
	return &fullSocket{segmenter: newSegmenter(65483, takes), takes: takes, open: make(chan struct{})}
}

// release lets the socket take everything.
func (s *fullSocket) release() {
	s.limit = 1 << 30
	close(s.open)
}

func (s *fullSocket) TryWritev(iov []unix.Iovec, eor bool) (int, error) {
	if len(s.stream) >= s.takes {
		select {
		case <-s.open:
		default:
			return 0, sockio.ErrWouldBlock
		}
	}
	return s.segmenter.TryWritev(iov, eor)
}

func (s *fullSocket) WaitWritable() error { <-s.open; return nil }

// Protects programs that wait for a completion to go on: that of a message which TCP
// has comes to the handler, though the next message finds the socket full.
func TestCompletionWhileFull(t *testing.T) {
	first := make(chan uint64, 1)
	var calls atomic.Int32
	s := newSide(t, New().dev, func(wcs []verbs.WC) {
		if calls.Add(1) == 1 {
			first <- wcs[0].ID
		}
	}, 1<<20).bare(t)
	out := newFullSocket(8192)
	s.open(t, out, link{ird: 1, ord: 1, mss: 65483})
	must(t, s.qp.PostSend([]verbs.SendWR{
		{ID: 1, SGEs: s.sge(0, 1000), Flags: verbs.SendSignaled},
		{ID: 2, SGEs: s.sge(0, 500_000), Flags: verbs.SendSignaled}}))
	select {
	case id := <-first:
		if id != 1 {
			t.Errorf("completion of request %d", id)
		}
	case <-time.After(5 * time.Second):
		t.Error("no completion while the socket is full")
	}
	out.release()
	s.settle()
}

// Protects the peer of a QP that enters SQD in the middle of a message: that one is
// finished, and nothing follows it, neither what was posted nor what the ring of the
// send queue still has.
func TestSQDFinishesMessage(t *testing.T) {
	s, _ := engine(t, link{ird: 1, ord: 1, mss: 65483}, 8<<20)
	out := newFullSocket(1_200_000)
	s.qp.sock = out
	wrs := []verbs.SendWR{{ID: 1, SGEs: s.sge(0, 100)}, {ID: 2, SGEs: s.sge(0, 100)},
		{ID: 3, SGEs: s.sge(0, 8<<20), Flags: verbs.SendSignaled}, {ID: 4, SGEs: s.sge(0, 64), Flags: verbs.SendSignaled}}
	must(t, s.qp.PostSend(wrs))
	must(t, s.qp.Modify(verbs.QPStateSQD))
	out.release()
	s.settle()
	s.ok(t, 3)
	ended := func() (n int) {
		eachFPDU(out.stream, func(_ []byte, c frame.Control) {
			if c.Last() {
				n++
			}
		})
		return n
	}
	if n := ended(); n != 3 {
		t.Fatalf("%d messages in SQD, want 3", n)
	}
	must(t, s.qp.Modify(verbs.QPStateRTS))
	s.settle()
	s.ok(t, 4)
	if n := ended(); n != 4 {
		t.Errorf("%d messages in RTS again, want 4", n)
	}
}
