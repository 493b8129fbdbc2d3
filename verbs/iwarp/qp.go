package iwarp

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"rbd/verbs"
	"rbd/verbs/internal/object"
)

// stream is the socket as the queue pair sees it.
type stream interface {
	Readv([]unix.Iovec) (int, error)
	TryReadv([]unix.Iovec) (int, error)
	TryWritev(iov []unix.Iovec, eor bool) (int, error)
	WaitReadable() error
	WaitWritable() error
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
	SetLinger(int) error
	Unacked() (n int, again bool, err error)
	CloseWrite() error
	Close() error
}

// qp is a queue pair with its half of the connection. See the package comment
// for who does what.
type qp struct {
	dev            *device
	pd             *pd
	num            uint32
	sendCQ, recvCQ *cq
	sigAll         bool
	cap            verbs.QPCap
	ended          func(cause error) // called once, when the QP is in ERR and flushed, or destroyed

	wake     chan struct{} // to the worker
	quit     chan struct{} // closed by Destroy
	services sync.WaitGroup
	farewell sync.WaitGroup // the end of the stream, which Destroy does not wait for

	mu        sync.Mutex
	state     verbs.QPState
	destroyed bool
	why       fault // why state is ERR
	flushed   bool
	started   bool // the receiver runs, or has run
	parting   bool // the stream is being ended
	active    bool // this side asked for the connection
	sock      stream

	sq      sendQueue
	rq      recvQueue
	orq     outReads
	irq     inReads
	held    bool // passive side: nothing may be sent before the first FPDU has come
	plugged int  // handlers running on goroutines of this QP
	txBusy  bool // somebody holds the transmit token
	passed  bool // the token waits for the worker
	txIdle  sync.Cond
	txErr   error // the socket's, when nothing can be sent any more

	tx transmitter // of the token's holder
	rx receiver    // of the receiver goroutine
}

func newQP(p *pd, attr verbs.QPInitAttr) (*qp, error) {
	d := p.dev
	send, ok1 := attr.SendCQ.(*cq)
	recv, ok2 := attr.RecvCQ.(*cq)
	if !ok1 || !ok2 || send.dev != d || recv.dev != d {
		return nil, fmt.Errorf("create queue pair: completion queue of another device: %w", verbs.ErrInvalid)
	}
	c := attr.Cap
	for _, v := range []struct{ n, limit int }{{c.MaxSendWR, maxQPWR}, {c.MaxRecvWR, maxQPWR},
		{c.MaxSendSGE, maxSGE}, {c.MaxRecvSGE, maxSGE}, {c.MaxInlineData, maxInline}} {
		if v.n < 0 || v.n > v.limit {
			return nil, fmt.Errorf("create queue pair: %+v is not what the device has: %w", c, verbs.ErrInvalid)
		}
	}
	c.MaxSendSGE, c.MaxRecvSGE = max(c.MaxSendSGE, 1), max(c.MaxRecvSGE, 1)
	q := &qp{dev: d, pd: p, num: d.qpNum.Add(1), sendCQ: send, recvCQ: recv, sigAll: attr.SQSigAll, cap: c,
		state: verbs.QPStateInit, wake: make(chan struct{}, 1), quit: make(chan struct{}),
		sq: newSendQueue(c.MaxSendWR, c.MaxSendSGE, c.MaxInlineData), rq: newRecvQueue(c.MaxRecvWR, c.MaxRecvSGE)}
	q.txIdle.L = &q.mu
	if err := q.attach(); err != nil {
		return nil, fmt.Errorf("create queue pair: %w", err)
	}
	q.services.Go(q.work)
	return q, nil
}

// attach counts the QP as a user of its domain and queues.
func (q *qp) attach() error {
	var got []*object.Users
	for _, u := range []*object.Users{&q.pd.users, &q.sendCQ.users, &q.recvCQ.users} {
		if !u.Add() {
			for _, g := range got {
				g.Remove()
			}
			return verbs.ErrClosed
		}
		got = append(got, u)
	}
	return nil
}

// link is what connection management settled for a QP.
type link struct {
	crc      bool
	ird, ord int
	held     bool
	active   bool
	mss      int
}

// start moves the QP to RTS on a connection. It takes the socket over.
func (q *qp) start(s stream, l link) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.open(s, l); err != nil {
		return err
	}
	q.services.Go(q.receive) // under mu: Destroy waits for it
	return nil
}

// open is start without the receiver. The caller holds mu.
func (q *qp) open(s stream, l link) error {
	if q.destroyed {
		return verbs.ErrClosed
	}
	if q.state != verbs.QPStateInit {
		return fmt.Errorf("queue pair is in %s: %w", q.state, verbs.ErrState)
	}
	q.sock, q.held, q.active, q.started = s, l.held, l.active, true
	q.orq = outReads{ring: make([]outRead, ringSize(l.ord)), cap: uint32(l.ord)}
	if l.ird > 0 {
		q.irq.ring = make([]inRead, ringSize(l.ird))
	}
	q.tx.init(q, l)
	q.rx.init(q, l)
	q.state = verbs.QPStateRTS
	return nil
}

func (q *qp) Num() uint32 { return q.num }

func (q *qp) State() verbs.QPState {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state
}

func (q *qp) Modify(to verbs.QPState) error {
	q.mu.Lock()
	from := q.state
	switch {
	case q.destroyed:
		q.mu.Unlock()
		return fmt.Errorf("modify queue pair: %w", verbs.ErrClosed)
	case to == verbs.QPStateERR:
		q.mu.Unlock()
		q.fail(&fault{cause: errors.New("queue pair was moved to ERR")})
		return nil
	case from == verbs.QPStateRTS && to == verbs.QPStateSQD, from == verbs.QPStateSQD && to == verbs.QPStateRTS:
		q.state = to
		q.mu.Unlock()
		q.transmitHere()
		return nil
	}
	q.mu.Unlock()
	return fmt.Errorf("modify queue pair from %s to %s: %w", from, to, verbs.ErrState)
}

func (q *qp) Destroy() error {
	q.mu.Lock()
	if q.destroyed {
		q.mu.Unlock()
		return fmt.Errorf("destroy queue pair: %w", verbs.ErrClosed)
	}
	q.destroyed = true
	if q.state != verbs.QPStateERR {
		q.state, q.why = verbs.QPStateERR, fault{cause: verbs.ErrDisconnected}
	}
	q.interrupt()
	for q.txBusy {
		q.txIdle.Wait()
	}
	started := q.started
	q.mu.Unlock()
	close(q.quit)
	q.services.Wait()
	if !started {
		q.ended(q.why.cause)
	}
	q.pd.users.Remove()
	q.sendCQ.users.Remove()
	q.recvCQ.users.Remove()
	return nil
}

// interrupt ends the waits for the socket. The caller holds mu.
func (q *qp) interrupt() {
	if q.sock == nil || q.parting {
		return
	}
	past := time.Unix(1, 0)
	// Errors mean that the socket is closed, and then nobody waits for it.
	_ = q.sock.SetReadDeadline(past)
	_ = q.sock.SetWriteDeadline(past)
}
