package bufpool

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"rbd/verbs"
)

// model is the simplest allocator that keeps the same promises: a map of units,
// and lines. Where a block goes is the pool's choice; whether there is one is
// not, as buddies that are free are always joined.
type model struct {
	t     *rapid.T
	p     *Pool
	base  uint64
	taken []bool // by unit
	lent  []*loan
	users []*user // the first is the pool itself
	turns []*user // those with a line, in the order in which they are served
	stuck bool    // the first of them finds no block
	ready []*loan // whose Ready was called, in this order, since the last check
	tag   byte
}

// user is an account.
type user struct {
	a    *Account
	line []*loan // those who wait, first come first
	held int
}

// loan is a block that is lent, or waited for.
type loan struct {
	user *user
	w    Waiter
	n    int
	tag  byte
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
	l.user.held += size
}

// may tells whether a user's share allows a block of n bytes.
func (m *model) may(u *user, n int) bool {
	return u == m.users[0] || u.held == 0 || 2*(u.held+units(n)*MinBlock) <= m.free()
}

func (m *model) free() int {
	free := 0
	for _, t := range m.taken {
		if !t {
			free += MinBlock
		}
	}
	return free
}

// next is the user who is served next; nil if nobody can be.
func (m *model) next() *user {
	for i, u := range m.turns {
		n := u.line[0].n
		if !m.may(u, n) {
			continue
		}
		// Those before u are over their share, and have had their turn.
		m.turns = slices.Concat(m.turns[i:], m.turns[:i])
		if m.stuck = !m.hasRoom(n); m.stuck {
			return nil
		}
		return u
	}
	return nil
}

func fill(b []byte, c byte) {
	for i := range b {
		b[i] = c
	}
}

// settle checks those who were served by the last call, and that nobody waits
// who could be served.
func (m *model) settle() {
	for u := m.next(); u != nil; u = m.next() {
		l := u.line[0]
		if len(m.ready) == 0 {
			m.t.Fatalf("a request of %d bytes waits, but it could be served", l.n)
		}
		if m.ready[0] != l {
			m.t.Fatalf("a request of %d bytes was served before one of %d whose turn it was", m.ready[0].n, l.n)
		}
		m.ready, m.turns = m.ready[1:], m.turns[1:]
		if u.line = u.line[1:]; len(u.line) > 0 {
			m.turns = append(m.turns, u)
		}
		m.lend(l)
	}
	if len(m.ready) > 0 {
		m.t.Fatalf("a request of %d bytes was served, though it could not be", m.ready[0].n)
	}
	if got, free := m.p.Free(), m.free(); got != free {
		m.t.Fatalf("%d bytes are free, the pool says %d", free, got)
	}
}

// request draws a request of one of the users.
func (m *model) request() (l *loan, now bool) {
	u := m.users[rapid.IntRange(0, len(m.users)-1).Draw(m.t, "user")]
	l = &loan{user: u, n: m.size()}
	return l, len(u.line) == 0 && !m.stuck && m.may(u, l.n) && m.hasRoom(l.n)
}

func (m *model) size() int {
	n := rapid.IntRange(1, m.p.MaxBlock()).Draw(m.t, "n")
	if rapid.Bool().Draw(m.t, "small") {
		n = 1 + n%(2*MinBlock)
	}
	return min(n, m.p.MaxBlock())
}

func (m *model) tryGet(*rapid.T) {
	l, want := m.request()
	if got := l.user.a.TryGet(l.n, &l.w.Buf); got != want {
		m.t.Fatalf("TryGet of %d bytes: %v, want %v", l.n, got, want)
	}
	if want {
		m.lend(l)
	}
	m.settle()
}

func (m *model) getOrWait(*rapid.T) {
	l, want := m.request()
	l.w.Ready = func(w *Waiter) {
		if w != &l.w {
			m.t.Fatal("Ready was called with another waiter")
		}
		m.ready = append(m.ready, l)
	}
	if got := l.user.a.GetOrWait(l.n, &l.w); got != want {
		m.t.Fatalf("GetOrWait of %d bytes: %v, want %v", l.n, got, want)
	}
	switch u := l.user; {
	case want:
		m.lend(l)
	case len(u.line) == 0:
		m.turns = append(m.turns, u)
		fallthrough
	default:
		u.line = append(u.line, l)
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
	l.user.held -= units(l.n) * MinBlock
	m.p.Put(b)
	if b.Data != nil || b.Addr != 0 {
		m.t.Fatalf("Put has left %+v", b)
	}
	m.settle()
}

func (m *model) cancel(*rapid.T) {
	if len(m.turns) == 0 {
		return
	}
	u := m.turns[rapid.IntRange(0, len(m.turns)-1).Draw(m.t, "user")]
	i := rapid.IntRange(0, len(u.line)-1).Draw(m.t, "waiter")
	l := u.line[i]
	if u == m.turns[0] && i == 0 {
		m.stuck = false
	}
	if u.line = slices.Delete(u.line, i, i+1); len(u.line) == 0 {
		j := slices.Index(m.turns, u)
		m.turns = slices.Delete(m.turns, j, j+1)
	}
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
// the lines are served in turns, within the shares, and never later than possible.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		maxBlock := MinBlock << rapid.IntRange(0, 4).Draw(rt, "order")
		size := maxBlock * rapid.IntRange(1, 5).Draw(rt, "blocks")
		p, err := New(&fakePD{}, size, maxBlock, 0)
		if err != nil {
			rt.Fatal(err)
		}
		m := &model{t: rt, p: p, base: verbs.AddrOf(p.mem), taken: make([]bool, size/MinBlock)}
		m.users = []*user{{a: &p.own}}
		for range rapid.IntRange(0, 3).Draw(rt, "accounts") {
			m.users = append(m.users, &user{a: p.Account()})
		}
		rt.Repeat(map[string]func(*rapid.T){"TryGet": m.tryGet, "GetOrWait": m.getOrWait, "Put": m.put, "Put2": m.put, "Cancel": m.cancel})
		for len(m.lent) > 0 {
			m.put(rt)
		}
		if len(m.turns) > 0 {
			rt.Fatalf("%d users wait for a pool that is whole", len(m.turns))
		}
		if err := p.Close(); err != nil {
			rt.Fatalf("close: %v", err)
		}
	})
}
