package bufpool

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"rbd/verbs"
)

// model is the simplest allocator that keeps the same promises: a map of units,
// and a line. Where a block goes is the pool's choice; whether there is one is
// not, as buddies that are free are always joined.
type model struct {
	t     *rapid.T
	p     *Pool
	base  uint64
	taken []bool // by unit
	lent  []*loan
	line  []*loan // those who wait, first come first
	ready []*loan // whose Ready was called, in this order, since the last check
	tag   byte
}

// loan is a block that is lent, or waited for.
type loan struct {
	w   Waiter
	n   int
	tag byte
}

// units is the size of the block for n bytes.
func units(n int) int {
	u := 1
	for u*MinBlock < n {
		u *= 2
	}
	return u
}

func (m *model) hasRoom(n int) bool {
	for i, u := 0, units(n); i < len(m.taken); i += u {
		if !anyTaken(m.taken[i : i+u]) {
			return true
		}
	}
	return false
}

func anyTaken(taken []bool) bool {
	for _, t := range taken {
		if t {
			return true
		}
	}
	return false
}

// lend checks a block that the pool has lent, and fills it.
func (m *model) lend(l *loan) {
	b, size := &l.w.Buf, units(l.n)*MinBlock
	off := int(b.Addr - m.base)
	if len(b.Data) != l.n || cap(b.Data) != size || b.Addr != verbs.AddrOf(b.Data) || off < 0 || off+size > m.p.Size() || off%size != 0 {
		m.t.Fatalf("block of %d bytes: length %d, capacity %d, offset %#x, want capacity and alignment %d", l.n, len(b.Data), cap(b.Data), off, size)
	}
	if b.LKey != fakeLKey || b.RKey != fakeRKey || b.SGE() != (verbs.SGE{Addr: b.Addr, Length: uint32(l.n), LKey: fakeLKey}) {
		m.t.Fatalf("keys of %+v, SGE %+v", b, b.SGE())
	}
	span := m.taken[off/MinBlock : (off+size)/MinBlock]
	if anyTaken(span) {
		m.t.Fatalf("the block of %d bytes at %#x is lent already", l.n, off)
	}
	for i := range span {
		span[i] = true
	}
	m.tag++
	l.tag = m.tag
	fill(b.Data[:cap(b.Data)], l.tag)
	m.lent = append(m.lent, l)
}

func fill(b []byte, c byte) {
	for i := range b {
		b[i] = c
	}
}

// settle checks those who were served by the last call, and that nobody waits
// who could be.
func (m *model) settle() {
	for _, l := range m.ready {
		if len(m.line) == 0 || m.line[0] != l {
			m.t.Fatalf("a request of %d bytes was served before its turn", l.n)
		}
		if !m.hasRoom(l.n) {
			m.t.Fatalf("a request of %d bytes was served, but there is no room", l.n)
		}
		m.line = m.line[1:]
		m.lend(l)
	}
	m.ready = nil
	if len(m.line) > 0 && m.hasRoom(m.line[0].n) {
		m.t.Fatalf("a request of %d bytes waits, but there is room", m.line[0].n)
	}
	free := 0
	for _, t := range m.taken {
		if !t {
			free += MinBlock
		}
	}
	if got := m.p.Free(); got != free {
		m.t.Fatalf("%d bytes are free, the pool says %d", free, got)
	}
}

func (m *model) size() int {
	n := rapid.IntRange(1, m.p.MaxBlock()).Draw(m.t, "n")
	if rapid.Bool().Draw(m.t, "small") {
		n = 1 + n%(2*MinBlock)
	}
	return min(n, m.p.MaxBlock())
}

func (m *model) tryGet(*rapid.T) {
	l := &loan{n: m.size()}
	want := len(m.line) == 0 && m.hasRoom(l.n)
	if got := m.p.TryGet(l.n, &l.w.Buf); got != want {
		m.t.Fatalf("TryGet of %d bytes: %v, want %v; %d wait", l.n, got, want, len(m.line))
	}
	if want {
		m.lend(l)
	}
	m.settle()
}

func (m *model) getOrWait(*rapid.T) {
	l := &loan{n: m.size()}
	l.w.Ready = func(w *Waiter) {
		if w != &l.w {
			m.t.Fatal("Ready was called with another waiter")
		}
		m.ready = append(m.ready, l)
	}
	want := len(m.line) == 0 && m.hasRoom(l.n)
	if got := m.p.GetOrWait(l.n, &l.w); got != want {
		m.t.Fatalf("GetOrWait of %d bytes: %v, want %v; %d wait", l.n, got, want, len(m.line))
	}
	if want {
		m.lend(l)
	} else {
		m.line = append(m.line, l)
	}
	m.settle()
}

func (m *model) put(*rapid.T) {
	if len(m.lent) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.lent)-1).Draw(m.t, "loan")
	l := m.lent[i]
	m.lent = append(m.lent[:i], m.lent[i+1:]...)
	b := &l.w.Buf
	whole := b.Data[:cap(b.Data)]
	if bytes.Count(whole, []byte{l.tag}) != len(whole) {
		m.t.Fatalf("the block at %#x was changed by another", b.Addr)
	}
	first := int(b.Addr-m.base) / MinBlock
	for j := range units(l.n) {
		m.taken[first+j] = false
	}
	m.p.Put(b)
	if b.Data != nil || b.Addr != 0 {
		m.t.Fatalf("Put has left %+v", b)
	}
	m.settle()
}

func (m *model) cancel(*rapid.T) {
	if len(m.line) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.line)-1).Draw(m.t, "waiter")
	l := m.line[i]
	m.line = append(m.line[:i:i], m.line[i+1:]...)
	if !m.p.Cancel(&l.w) {
		m.t.Fatal("Cancel of a waiter in line answers false")
	}
	if m.p.Cancel(&l.w) {
		m.t.Fatal("Cancel of a waiter that has left the line answers true")
	}
	m.settle()
}

// Protects the whole promise, whatever the order of calls: no two loans overlap,
// blocks are aligned and no larger than needed, free neighbours join again, and
// the line is served strictly in order and never later than possible.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		maxBlock := MinBlock << rapid.IntRange(0, 4).Draw(rt, "order")
		size := maxBlock * rapid.IntRange(1, 5).Draw(rt, "blocks")
		p, err := New(&fakePD{}, size, maxBlock, 0)
		if err != nil {
			rt.Fatal(err)
		}
		m := &model{t: rt, p: p, base: verbs.AddrOf(p.mem), taken: make([]bool, size/MinBlock)}
		rt.Repeat(map[string]func(*rapid.T){"TryGet": m.tryGet, "GetOrWait": m.getOrWait, "Put": m.put, "Put2": m.put, "Cancel": m.cancel})
		for len(m.lent) > 0 {
			m.put(rt)
		}
		if len(m.line) > 0 {
			rt.Fatalf("%d wait for a pool that is whole", len(m.line))
		}
		if err := p.Close(); err != nil {
			rt.Fatalf("close: %v", err)
		}
	})
}
