package bufpool

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"rbd/verbs"
)

// ErrClosed: the pool is closed.
var ErrClosed = errors.New("buffer pool closed")

// Buf is a block on loan. The zero Buf holds nothing.
type Buf struct {
	// Data has the length that was asked for.
	Data []byte
	// Addr, LKey and RKey name Data for work requests and peers. After a Move the
	// keys of a block that was lent before are no longer valid; Pool.Keys has them.
	Addr       uint64
	LKey, RKey uint32

	unit    int32
	order   int8
	account *Account
}

// SGE is the scatter/gather element for all of Data.
func (b *Buf) SGE() verbs.SGE {
	return verbs.SGE{Addr: b.Addr, Length: uint32(len(b.Data)), LKey: b.LKey}
}

// Waiter stands in line for a buffer. Its owner may use it again once Ready was
// called or Cancel has returned true.
type Waiter struct {
	// Ready is called once, when Buf has been lent.
	Ready func(w *Waiter)
	Buf   Buf

	n          int
	next, prev *Waiter
	account    *Account // whose line it is in; nil if in none
}

// Pool lends blocks of one memory region.
type Pool struct {
	mem    []byte
	max    int
	access verbs.Access

	own Account // of those who use the pool itself

	mu sync.Mutex
	mr verbs.MR
	b  *buddy
	// waiting are the accounts with a line, in the order of their turns.
	waiting ring
	// stuck: for the account whose turn it is, the first, no free block is large
	// enough. All others wait, so that there is one soon.
	stuck  bool
	closed bool
}

// New registers size bytes on pd with the rights given, rounded up to whole
// blocks of maxBlock bytes, the largest that will be lent; maxBlock is rounded
// up to MinBlock times a power of two.
func New(pd verbs.PD, size, maxBlock int, access verbs.Access) (*Pool, error) {
	if size <= 0 || maxBlock <= 0 || maxBlock > size {
		return nil, fmt.Errorf("buffer pool of %d bytes in blocks of %d: %w", size, maxBlock, verbs.ErrInvalid)
	}
	maxOrder := orderFor(maxBlock)
	maxBlock = MinBlock << maxOrder
	size = (size + maxBlock - 1) / maxBlock * maxBlock
	mem, err := verbs.AllocMemory(size)
	if err != nil {
		return nil, fmt.Errorf("buffer pool: %w", err)
	}
	mr, err := pd.RegMR(mem, access)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("register a buffer pool of %d bytes: %w", size, err), verbs.FreeMemory(mem))
	}
	p := &Pool{mem: mem, mr: mr, max: maxBlock, access: access, b: newBuddy(size/MinBlock, maxOrder)}
	p.own.p, p.own.unbounded = p, true
	return p, nil
}

// MaxBlock is the largest length that Get lends.
func (p *Pool) MaxBlock() int { return p.max }

// Size is the pool's memory in bytes, and Free how much of it is not lent.
func (p *Pool) Size() int { return len(p.mem) }

// Free is the number of bytes that are not on loan.
func (p *Pool) Free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.free * MinBlock
}

// lend fills buf for an account, or says that there is no block. The caller holds mu.
func (p *Pool) lend(a *Account, n int, buf *Buf) bool {
	order := orderFor(n)
	unit := p.b.alloc(order)
	if unit == nowhere {
		return false
	}
	off := unit * MinBlock
	*buf = Buf{
		Data: p.mem[off : off+n : off+MinBlock<<order],
		Addr: p.mr.Addr() + uint64(off), LKey: p.mr.LKey(), RKey: p.mr.RKey(),
		unit: int32(unit), order: int8(order), account: a,
	}
	a.held += MinBlock << order
	return true
}

// TryGet lends a block of n bytes, 1..MaxBlock, or says no: there is none, or
// others wait for one.
func (p *Pool) TryGet(n int, buf *Buf) bool { return p.own.TryGet(n, buf) }

// GetOrWait lends w.Buf now and returns true, or puts w in line and returns
// false: then w.Ready is called when w.Buf has been lent, unless Cancel comes first.
func (p *Pool) GetOrWait(n int, w *Waiter) bool { return p.own.GetOrWait(n, w) }

// Get lends a block of n bytes and waits for it if need be, until ctx ends. On a
// closed pool it answers ErrClosed.
func (p *Pool) Get(ctx context.Context, n int, buf *Buf) error { return p.own.Get(ctx, n, buf) }

// Cancel takes w out of the line. It returns false if w was not in it: its
// buffer has been lent and is its owner's to put back, and Ready was or will be
// called.
func (p *Pool) Cancel(w *Waiter) bool {
	p.mu.Lock()
	a := w.account
	if a == nil {
		p.mu.Unlock()
		return false
	}
	if p.waiting.first == a && a.head == w {
		p.stuck = false
	}
	a.unlink(w)
	served := p.serve()
	p.mu.Unlock()
	call(served)
	return true
}

func (p *Pool) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// Put takes a block back and zeroes buf.
func (p *Pool) Put(buf *Buf) {
	if buf.Data == nil {
		panic("bufpool: buffer returned twice")
	}
	p.mu.Lock()
	p.b.release(int(buf.unit), int(buf.order))
	buf.account.held -= MinBlock << buf.order
	*buf = Buf{}
	served := p.serve()
	p.mu.Unlock()
	call(served)
}

// serve lends to those who wait, an account after the other, while there is room, and
// returns them as a list.
func (p *Pool) serve() (served *Waiter) {
	var last *Waiter
	for passed := 0; !p.closed && passed < p.waiting.n; {
		a := p.waiting.first
		w := a.head
		if !a.may(w.n) {
			p.waiting.pass()
			passed++
			continue
		}
		if !p.lend(a, w.n, &w.Buf) {
			p.stuck = true
			break
		}
		p.stuck, passed = false, 0
		a.unlink(w)
		if a.head != nil {
			p.waiting.remove(a)
			p.waiting.push(a)
		}
		if last == nil {
			served = w
		} else {
			last.next = w
		}
		last = w
	}
	return served
}

func call(w *Waiter) {
	for w != nil {
		next := w.next
		w.next = nil
		w.Ready(w)
		w = next
	}
}

func (p *Pool) check(n int) {
	if n <= 0 || n > p.max {
		panic(fmt.Sprintf("bufpool: %d bytes asked of a pool whose largest block is %d", n, p.max))
	}
}

// Close deregisters and frees the memory. All blocks must be back: it answers
// verbs.ErrBusy otherwise. Nobody may be waiting.
func (p *Pool) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClosed
	}
	if out := len(p.mem) - p.b.free*MinBlock; out != 0 || p.waiting.n > 0 {
		return fmt.Errorf("close a buffer pool with %d bytes on loan: %w", out, verbs.ErrBusy)
	}
	p.closed = true
	if err := p.mr.Dereg(); err != nil {
		return fmt.Errorf("deregister a buffer pool: %w", err)
	}
	return verbs.FreeMemory(p.mem)
}
