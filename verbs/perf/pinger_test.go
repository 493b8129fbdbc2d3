package perf

import (
	"testing"

	"rbd/verbs"
)

// postedQP counts what is posted. Its other methods are not there.
type postedQP struct {
	verbs.QP
	posted, signaled int
}

func (q *postedQP) PostSend(wrs []verbs.SendWR) error {
	q.posted += len(wrs)
	if wrs[0].Flags&verbs.SendSignaled != 0 {
		q.signaled++
	}
	return nil
}

// Protects from overrunning the send queue of a device whose completions come
// later than the peer's answers: the ping that has no room is sent when a
// completion makes some, once.
func TestPingerWaitsForRoom(t *testing.T) {
	var q postedQP
	var p pinger
	p.init(&q, verbs.SendWR{})
	send := func() {
		t.Helper()
		if err := p.send(); err != nil {
			t.Fatal(err)
		}
	}
	for range pingDepth {
		send()
	}
	if q.posted != pingDepth || q.signaled != pingDepth/pingSignal {
		t.Fatalf("%d posted, %d signaled", q.posted, q.signaled)
	}
	if send(); q.posted != pingDepth {
		t.Fatal("posted without room")
	}
	for i, want := range []int{pingDepth + 1, pingDepth + 1} {
		if err := p.completed(); err != nil || q.posted != want {
			t.Fatalf("after completion %d: %d posted, want %d, error %v", i, q.posted, want, err)
		}
	}
	for range pingDepth - 1 {
		send()
	}
	if q.posted != 2*pingDepth || q.signaled != 4 {
		t.Fatalf("%d posted, %d signaled", q.posted, q.signaled)
	}
}
