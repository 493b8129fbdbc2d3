package bufpool

import (
	"context"
	"fmt"
)

// Account is one of the users of a pool. None can take it from the others: an account
// that holds something gets more only while all that it holds is at most half of what
// is free. So one account alone may have a third of the pool, each of two a quarter, and
// even ten that never give anything back, one after the other, leave a sixtieth of it.
// An account that holds nothing gets what there is.
type Account struct {
	p         *Pool
	unbounded bool // the pool's own

	// These are under the pool's mutex.
	held       int     // bytes of blocks on loan
	head, tail *Waiter // the line
	next, prev *Account
}

// Account makes another user of the pool. It needs no closing.
func (p *Pool) Account() *Account { return &Account{p: p} }

// may tells whether the account's share allows n bytes more.
func (a *Account) may(n int) bool {
	return a.unbounded || a.held == 0 || a.held+MinBlock<<orderFor(n) <= a.p.b.free*MinBlock/2
}

// take lends now, if it is the account's turn.
func (a *Account) take(n int, buf *Buf) bool {
	p := a.p
	return !p.closed && a.head == nil && !p.stuck && a.may(n) && p.lend(a, n, buf)
}

// TryGet is Pool.TryGet for the account.
func (a *Account) TryGet(n int, buf *Buf) bool {
	p := a.p
	p.check(n)
	p.mu.Lock()
	defer p.mu.Unlock()
	return a.take(n, buf)
}

// GetOrWait is Pool.GetOrWait for the account. An account is served in the order in
// which its waiters came.
func (a *Account) GetOrWait(n int, w *Waiter) bool {
	p := a.p
	p.check(n)
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.account != nil {
		panic("bufpool: waiter is in line already")
	}
	if a.take(n, &w.Buf) {
		return true
	}
	w.n = n
	a.link(w)
	if !p.stuck && a.head == w && a.may(n) {
		p.waiting.first, p.stuck = a, true // all before it are over their share
	}
	return false
}

// Get is Pool.Get for the account.
func (a *Account) Get(ctx context.Context, n int, buf *Buf) error {
	if a.TryGet(n, buf) {
		return nil
	}
	if a.p.isClosed() {
		return fmt.Errorf("get a buffer of %d bytes: %w", n, ErrClosed)
	}
	ready := make(chan struct{})
	w := &Waiter{Ready: func(*Waiter) { close(ready) }}
	if a.GetOrWait(n, w) {
		*buf = w.Buf
		return nil
	}
	select {
	case <-ready:
	case <-ctx.Done():
		if a.p.Cancel(w) {
			return fmt.Errorf("wait for a buffer of %d bytes: %w", n, ctx.Err())
		}
		<-ready
	}
	*buf = w.Buf
	return nil
}

// link puts w at the end of the account's line.
func (a *Account) link(w *Waiter) {
	w.account, w.prev, w.next = a, a.tail, nil
	if a.tail != nil {
		a.tail.next = w
	} else {
		a.head = w
		a.p.waiting.push(a)
	}
	a.tail = w
}

// unlink takes w out of the account's line.
func (a *Account) unlink(w *Waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		a.head = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		a.tail = w.prev
	}
	w.next, w.prev, w.account = nil, nil, nil
	if a.head == nil {
		a.p.waiting.remove(a)
	}
}

// ring is the accounts that have a line; the first is the one whose turn it is.
type ring struct {
	first *Account
	n     int
}

// push puts an account at the end.
func (r *ring) push(a *Account) {
	if r.n++; r.first == nil {
		r.first, a.next, a.prev = a, a, a
		return
	}
	a.next, a.prev = r.first, r.first.prev
	a.prev.next, a.next.prev = a, a
}

// pass makes the first account the last.
func (r *ring) pass() { r.first = r.first.next }

// remove takes an account out.
func (r *ring) remove(a *Account) {
	r.n--
	a.prev.next, a.next.prev = a.next, a.prev
	if r.first == a {
		r.first = a.next
	}
	if r.n == 0 {
		r.first = nil
	}
	a.next, a.prev = nil, nil
}
