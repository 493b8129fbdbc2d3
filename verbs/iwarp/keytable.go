package iwarp

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"rbd/verbs"
)

// keySlots is the size of the key table; the low bits of a key are its slot. At
// most half of the slots are used, so that a random key soon finds a free one.
const keySlots = 1 << 16

// keyTable finds regions by key, without locks.
type keyTable struct {
	slots [keySlots]atomic.Pointer[mr]
	n     atomic.Int32
}

// insert gives the region a random key.
func (t *keyTable) insert(m *mr) error {
	if t.n.Add(1) > maxMR {
		t.n.Add(-1)
		return fmt.Errorf("%d memory regions: %w", maxMR, verbs.ErrNoMemory)
	}
	for {
		var b [4]byte
		rand.Read(b[:])
		m.key = binary.LittleEndian.Uint32(b[:])
		if m.key != 0 && t.slots[m.key%keySlots].CompareAndSwap(nil, m) {
			return nil
		}
	}
}

func (t *keyTable) remove(m *mr) {
	if t.slots[m.key%keySlots].CompareAndSwap(m, nil) {
		t.n.Add(-1)
	}
}

func (t *keyTable) find(key uint32) *mr {
	if m := t.slots[key%keySlots].Load(); m != nil && m.key == key {
		return m
	}
	return nil
}

// accessError says why memory may not be touched.
type accessError uint8

const (
	accessOK accessError = iota
	badSTag
	badBounds
	badRights
	badDomain
	badWrap
)

func (e accessError) String() string {
	return [...]string{"no error", "unknown key", "out of bounds", "no right", "key of another protection domain", "address wraps"}[e]
}

// check says whether n bytes, at least one, at addr may be accessed by the key,
// and where in the region they are.
func (t *keyTable) check(p *pd, key uint32, addr, n uint64, right verbs.Access) (m *mr, off uint64, e accessError) {
	if m = t.find(key); m == nil {
		return nil, 0, badSTag
	}
	off = addr - m.base
	switch {
	case m.refs.Load() >= ended:
		e = badSTag
	case m.pd != p:
		e = badDomain
	case addr+n-1 < addr:
		e = badWrap
	case addr < m.base || off > uint64(len(m.mem)) || n > uint64(len(m.mem))-off:
		e = badBounds
	case m.access&right != right:
		e = badRights
	}
	return m, off, e
}

// acquire begins an access to what check checks. The caller releases the region
// when it has touched the bytes.
func (t *keyTable) acquire(p *pd, key uint32, addr, n uint64, right verbs.Access) (*mr, []byte, accessError) {
	m, off, e := t.check(p, key, addr, n, right)
	if e != accessOK {
		return nil, nil, e
	}
	if !m.acquire() {
		return nil, nil, badSTag
	}
	return m, m.mem[off : off+n : off+n], accessOK
}

// invalidate ends a region at the peer's wish. Only regions with a remote right
// can be ended so; one that has ended already is fine (as in Soft-iWARP).
func (t *keyTable) invalidate(p *pd, key uint32) bool {
	m := t.find(key)
	if m == nil || m.pd != p || m.access&(verbs.AccessRemoteRead|verbs.AccessRemoteWrite) == 0 {
		return false
	}
	m.end()
	return true
}
