package iwarp

import (
	"fmt"
	"sync/atomic"

	"rbd/verbs"
)

// mr is a memory region. It has one STag, which is both of its keys; a region
// without remote rights just refuses the peer.
type mr struct {
	pd     *pd
	mem    []byte
	base   uint64
	key    uint32
	access verbs.Access

	// refs counts the accesses in progress; ended is added when the key stops
	// working, by Dereg or by the peer's Send with Invalidate.
	refs    atomic.Int64
	drained chan struct{} // a token when refs has fallen to ended
	dereg   atomic.Bool
}

const ended = int64(1) << 62

func (m *mr) Addr() uint64 { return m.base }
func (m *mr) Len() int     { return len(m.mem) }
func (m *mr) LKey() uint32 { return m.key }
func (m *mr) RKey() uint32 { return m.key }

// Dereg frees the key after the accesses in progress, which are single steps of
// copying or system calls that don't wait.
func (m *mr) Dereg() error {
	if m.dereg.Swap(true) {
		return fmt.Errorf("deregister memory: %w", verbs.ErrClosed)
	}
	m.end()
	for m.refs.Load() != ended {
		<-m.drained
	}
	m.pd.dev.keys.remove(m)
	m.pd.users.Remove()
	return nil
}

// end lets no further access begin. It may be called again.
func (m *mr) end() { m.refs.Or(ended) }

// acquire begins an access; false when the region has ended.
func (m *mr) acquire() bool {
	if m.refs.Add(1) < ended {
		return true
	}
	m.release()
	return false
}

func (m *mr) release() {
	if m.refs.Add(-1) == ended {
		select {
		case m.drained <- struct{}{}:
		default:
		}
	}
}
