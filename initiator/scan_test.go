package initiator

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"rbd/wire"
)

// identifyScript is a script that answers the next Identify Namespace commands for
// namespace 1 with an error, as many as left says.
func identifyScript(t *testing.T, status wire.Status) (s *script, left *atomic.Int32) {
	s, left = newScript(t), new(atomic.Int32)
	s.hook = func(qid uint16, q *wire.SQE) ([]byte, *wire.CQE, error) {
		if qid != 0 || q.Opcode != uint8(wire.AdminIdentify) {
			return nil, nil, nil
		}
		if i := wire.ParseIdentify(q); i.CNS == wire.CNSNamespace && i.NSID == 1 && left.Add(-1) >= 0 {
			return nil, &wire.CQE{Status: status}, nil
		}
		return nil, nil, nil
	}
	return s, left
}

// hangUp ends all connections.
func (s *script) hangUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.id.Disconnect()
	}
}

// Protects the requests that wait for a disk which the target can't describe for a
// moment, right after a reconnect: the next try is the one. What it will never
// describe again is gone.
func TestScanTransientAtReconnect(t *testing.T) {
	for _, tc := range []struct {
		status wire.Status
		times  int32
		want   error
	}{
		{wire.StatusInternalError, 2, nil},
		{wire.StatusInternalError.WithDNR(), 1, ErrNoNamespace},
	} {
		t.Run(tc.status.String(), func(t *testing.T) {
			s, left := identifyScript(t, tc.status)
			c, err := connectScript(t, s, Options{Queues: 1, ReconnectDelay: 20 * time.Millisecond, LossTimeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			n, back := namespace(t, c, 1), make(returner, 1)
			left.Store(tc.times)
			s.hangUp()
			for c.State() == StateLive {
				time.Sleep(time.Millisecond)
			}
			c.Queues()[0].Submit([]*Request{{Op: OpFlush, NSID: 1, Owner: back}})
			if r := <-back; !errors.Is(r.Err, tc.want) {
				t.Errorf("the request that waited: %v, want %v", r.Err, tc.want)
			}
			if err := n.Flush(short(t)); !errors.Is(err, tc.want) {
				t.Errorf("a later one: %v, want %v", err, tc.want)
			}
			if left.Load() > 0 {
				t.Error("the controller was not asked")
			}
		})
	}
}

// Protects disks in use from a controller that tells of a change and can't describe
// a namespace for a moment: it stays what it was, and is asked about again.
func TestScanTransientAtEvent(t *testing.T) {
	s, left := identifyScript(t, wire.StatusInternalError)
	changes := make(chan NamespaceChange, 8)
	c, err := connectScript(t, s, Options{
		Queues: 1, ReconnectDelay: 20 * time.Millisecond, LossTimeout: time.Minute,
		OnNamespaceChange: func(ch NamespaceChange) { changes <- ch },
	})
	if err != nil {
		t.Fatal(err)
	}
	n := namespace(t, c, 1)
	for waits := false; !waits; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		waits = len(s.events) > 0
		s.mu.Unlock()
	}
	s.mu.Lock()
	s.ns[1] = blocks512(4096)
	s.mu.Unlock()
	left.Store(3)
	s.event(wire.NamespaceChanged())
	for left.Load() > 1 {
		time.Sleep(time.Millisecond)
	}
	if err := n.Flush(short(t)); err != nil {
		t.Errorf("in the meantime: %v", err)
	}
	select {
	case ch := <-changes:
		if ch.Kind != NamespaceChanged || ch.Namespace != n || n.Size() != 2<<20 {
			t.Errorf("namespace %d %v, %d bytes", ch.Namespace.NSID(), ch.Kind, n.Size())
		}
	case <-time.After(10 * time.Second):
		t.Error("the change was not told")
	}
}
