package initiator

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"rbd/wire"
)

// interrupted is the answer of a controller that is busy for a moment.
func interrupted(s wire.SQE) wire.CQE {
	return wire.CQE{CID: s.CID, Status: wire.StatusCommandInterrupted}
}

// takeLater waits for capsules.
func (f *fakeConn) takeLater(t *testing.T) []wire.SQE {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if s := f.take(); len(s) > 0 {
			return s
		}
	}
	t.Fatal("nothing was sent")
	return nil
}

// Protects users from errors that pass: a command whose status lets it be sent again
// is sent again, after a pause, as a new command, and only the part that failed.
func TestQueueRepeat(t *testing.T) {
	f := newFixture(t, 4, 4096)
	o := newCollector()
	read, write := f.req(o, OpRead, 0, 128<<10), f.req(o, OpWrite, 512, 512)
	f.q.Submit([]*Request{read, write})
	first := f.take()
	f.answer(ok(first[0]), interrupted(first[1]))
	second := f.take()
	begin := time.Now()
	f.answer(interrupted(second[0]))
	if s := f.take(); len(s) != 0 || f.q.idle() {
		t.Errorf("%d capsules at once, idle %v", len(s), f.q.idle())
	}
	var again []wire.SQE
	for len(again) < 2 {
		again = append(again, f.takeLater(t)...)
	}
	if took := time.Since(begin); took < firstPause/2 {
		t.Errorf("sent again after %v", took)
	}
	o.none(t)
	if got := offsets(again); !slices.Contains(got, 512) || !slices.Contains(got, 64<<10) || again[0].CID == first[1].CID {
		t.Errorf("sent again: %v, CID %#x", got, again[0].CID)
	}
	f.answer(ok(again[0]), ok(again[1]))
	o.wait(t, 2)
	if read.Err != nil || write.Err != nil {
		t.Errorf("got %v, %v", read.Err, write.Err)
	}
}

// Protects from repeating what must not be, or for ever: a flush after which data
// may be lost, what the controller does not want again, what its caller has given up.
func TestRequestRepeats(t *testing.T) {
	quit := newCall()
	quit.quit.Store(true)
	for _, tc := range []struct {
		req    Request
		status wire.Status
		want   int // times
	}{
		{Request{Op: OpRead}, wire.StatusCommandInterrupted, 5},
		{Request{Op: OpWrite}, wire.StatusInternalError, 5},
		{Request{Op: OpWrite}, wire.StatusInternalError.WithDNR(), 0},
		{Request{Op: OpTrim}, wire.StatusNamespaceNotReady, 5},
		{Request{Op: OpFlush}, wire.StatusNamespaceNotReady, 5},
		{Request{Op: OpFlush}, wire.StatusCommandInterrupted, 5},
		{Request{Op: OpFlush}, wire.StatusInternalError, 0},
		{Request{Op: OpFlush}, wire.StatusWriteFault, 0},
		{Request{Op: OpWrite, call: quit}, wire.StatusCommandInterrupted, 0},
	} {
		x, r := newExchange(1), tc.req
		times := -1
		for x.enqueue(&r); x.head != nil; times++ {
			i, _ := x.next()
			if err := errors.Join(x.sent(x.cid(i)), x.answer(&wire.CQE{CID: x.cid(i), Status: tc.status})); err != nil {
				t.Fatal(err)
			}
			if x.interrupted.head != nil {
				x.enqueue(x.interrupted.dequeue())
			}
		}
		if times != tc.want || !errors.Is(r.Err, tc.status) || !x.idle() {
			t.Errorf("%v, %v: repeated %d times, want %d; ends with %v", r.Op, tc.status, times, tc.want, r.Err)
		}
	}
}

// Protects a request in its pause: its caller can take it back, a loss takes it to
// the next connection, and the end of the pause finds nothing then.
func TestQueueRepeatPaused(t *testing.T) {
	f := newFixture(t, 4, 4096)
	o := newCollector()
	back, kept := f.req(o, OpRead, 0, 512), f.req(o, OpRead, 512, 512)
	f.q.Submit([]*Request{back, kept})
	s := f.take()
	f.answer(interrupted(s[0]), interrupted(s[1]))
	f.q.withdraw(back, context.Canceled)
	o.wait(t, 1)
	if !errors.Is(back.Err, context.Canceled) {
		t.Errorf("got %v", back.Err)
	}
	f.lose(t)
	o.none(t)
	f.fakeConn = f.reconnect(t, 4)
	f.q.resume(nil)
	s = f.take()
	if got := offsets(s); !slices.Equal(got, []uint64{512}) {
		t.Fatalf("offsets %v on the next connection", got)
	}
	time.Sleep(firstPause + 20*time.Millisecond)
	if n := len(f.take()); n != 0 {
		t.Errorf("%d capsules when the pause was over", n)
	}
	f.answer(ok(s[0]))
	o.wait(t, 1)
	if kept.Err != nil {
		t.Error(kept.Err)
	}
}
