package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"rbd/initiator"
	"rbd/nbd"
	"rbd/verbs/bufpool"
	"rbd/wire"
)

// maxTrim is the most that is trimmed at once. The kernel gives a request 30 seconds,
// while it may have 128 of them under way on a connection: 8 GiB in that time is what a
// disk does that can only write zeros in place of trimming. Larger ones would save
// nothing: a terabyte is 16384 requests.
const maxTrim = 64 << 20

// nbdDevice is a remote namespace as the NBD server sees it. Each NBD connection
// is bound to one I/O queue of the controller, in turn.
type nbdDevice struct {
	ctrl *initiator.Controller
	ns   *initiator.Namespace
	next atomic.Uint32
}

// Info is the namespace in the words of NBD.
func (d *nbdDevice) Info() nbd.DeviceInfo {
	i := d.ns.Info()
	return nbd.DeviceInfo{
		Size:           i.Size,
		MinBlock:       i.BlockSize,
		PreferredBlock: max(i.BlockSize, 4096),
		MaxTransfer:    uint32(min(i.MaxTransfer, math.MaxUint32)),
		MaxTrim:        maxTrim,
		ReadOnly:       i.ReadOnly,
		Flush:          true, // without a volatile cache the device answers at once
		FUA:            true,
		Trim:           i.CanTrim,
		WriteZeroes:    i.CanWriteZeroes,
		MultiConn:      true, // NVMe has one cache a namespace, whatever the queue
	}
}

// OpenQueue binds a connection to the next queue.
func (d *nbdDevice) OpenQueue(o nbd.Owner) (nbd.Queue, error) {
	queues := d.ctrl.Queues()
	if len(queues) == 0 {
		return nil, fmt.Errorf("namespace %d: %w", d.ns.NSID(), initiator.ErrConnectionLost)
	}
	pool := d.ctrl.Buffers()
	q := &nbdQueue{
		ctrl: d.ctrl, owner: o, pool: pool, share: pool.Account(), nsid: d.ns.NSID(),
		queue:     queues[int(d.next.Add(1)-1)%len(queues)],
		submitted: make([]*initiator.Request, 0, nbd.MaxRequests),
		completed: make([]*nbd.Request, 0, nbd.MaxRequests),
	}
	q.idle.L = &q.mu
	return q, nil
}

// nbdQueue carries the requests of one NBD connection to its I/O queue. The
// request with index i is always carried by reqs[i], so that nothing is
// allocated on the way.
type nbdQueue struct {
	ctrl  *initiator.Controller
	owner nbd.Owner
	queue *initiator.Queue
	pool  *bufpool.Pool
	// share is the connection's part of the pool: clients that do not read their replies
	// must not stop the others.
	share *bufpool.Account
	nsid  uint32
	// abandoned: the client has hung up; its requests wait for no target that is away.
	abandoned atomic.Bool

	reqs [nbd.MaxRequests]initiator.Request
	from [nbd.MaxRequests]*nbd.Request
	// submitted is the scratch of Submit, completed that of Complete.
	submitted []*initiator.Request
	completed []*nbd.Request

	mu          sync.Mutex
	idle        sync.Cond
	outstanding int
	lent        lentBuffers
}

// lentBuffers keeps what bufpool wants back, found by a number that fits into
// nbd.Buffer.Handle.
type lentBuffers struct {
	bufs []bufpool.Buf
	free []int
}

func (l *lentBuffers) add(b bufpool.Buf) (handle uint64) {
	if len(l.free) == 0 {
		l.bufs = append(l.bufs, bufpool.Buf{})
		l.free = append(l.free, len(l.bufs)-1)
	}
	i := l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	l.bufs[i] = b
	return uint64(i)
}

func (l *lentBuffers) take(handle uint64) (b bufpool.Buf) {
	b, l.bufs[handle] = l.bufs[handle], bufpool.Buf{}
	l.free = append(l.free, int(handle))
	return b
}

// Alloc waits for registered memory.
func (q *nbdQueue) Alloc(ctx context.Context, n int, buf *nbd.Buffer) error {
	var b bufpool.Buf
	if err := q.share.Get(ctx, n, &b); err != nil {
		return err
	}
	q.lend(b, buf)
	return nil
}

// TryAlloc gets registered memory if there is some.
func (q *nbdQueue) TryAlloc(n int, buf *nbd.Buffer) bool {
	var b bufpool.Buf
	if !q.share.TryGet(n, &b) {
		return false
	}
	q.lend(b, buf)
	return true
}

func (q *nbdQueue) lend(b bufpool.Buf, buf *nbd.Buffer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	buf.Data, buf.Handle[0] = b.Data, q.lent.add(b)
}

// Free gives memory back.
func (q *nbdQueue) Free(buf *nbd.Buffer) {
	q.mu.Lock()
	b := q.lent.take(buf.Handle[0])
	q.mu.Unlock()
	*buf = nbd.Buffer{}
	q.pool.Put(&b)
}

var initiatorOps = [...]initiator.Op{
	nbd.OpRead: initiator.OpRead, nbd.OpWrite: initiator.OpWrite, nbd.OpFlush: initiator.OpFlush,
	nbd.OpTrim: initiator.OpTrim, nbd.OpWriteZeroes: initiator.OpWriteZeroes,
}

// Submit hands a batch to the I/O queue.
func (q *nbdQueue) Submit(reqs []*nbd.Request) {
	q.submitted = q.submitted[:0]
	q.mu.Lock()
	q.outstanding += len(reqs)
	for _, r := range reqs {
		x := &q.reqs[r.Index]
		x.Op, x.FUA, x.NoUnmap = initiatorOps[r.Op], r.FUA, r.NoHole
		x.NSID, x.Offset, x.Length = q.nsid, r.Offset, r.Length
		x.Owner, x.Tag, x.Abandoned = q, uint64(r.Index), &q.abandoned
		if len(r.Buf.Data) > 0 {
			x.Buf = q.lent.bufs[r.Buf.Handle[0]]
		}
		q.from[r.Index] = r
		q.submitted = append(q.submitted, x)
	}
	q.mu.Unlock()
	q.queue.Submit(q.submitted)
}

// Abandon ends the requests that wait until the target is back.
func (q *nbdQueue) Abandon() {
	q.abandoned.Store(true)
	q.ctrl.DropAbandoned()
}

// Complete hands a batch back to the NBD connection.
func (q *nbdQueue) Complete(batch []*initiator.Request) {
	q.completed = q.completed[:0]
	for _, x := range batch {
		r := q.from[x.Tag]
		r.Err = nbdError(x.Err)
		x.Buf = bufpool.Buf{}
		q.completed = append(q.completed, r)
	}
	q.owner.Complete(q.completed)
	q.mu.Lock()
	q.outstanding -= len(batch)
	if q.outstanding == 0 {
		q.idle.Broadcast()
	}
	q.mu.Unlock()
}

// Close waits until nothing is outstanding.
func (q *nbdQueue) Close() error {
	q.mu.Lock()
	for q.outstanding > 0 {
		q.idle.Wait()
	}
	q.mu.Unlock()
	return nil
}

// nbdError chooses the error value that an NBD client gets. The loss of the target
// comes before what its causes are: a status of the last try to reconnect is not about
// the request.
func nbdError(err error) error {
	var status wire.Status
	switch {
	case err == nil:
		return nil
	case errors.Is(err, initiator.ErrClosed):
		return nbd.ErrShutdown
	case errors.Is(err, initiator.ErrConnectionLost):
		return nbd.ErrIO
	case errors.Is(err, initiator.ErrReadOnly):
		return nbd.ErrPermission
	case errors.Is(err, initiator.ErrNotSupported):
		return nbd.ErrNotSupported
	case errors.As(err, new(*initiator.RangeError)):
		return nbd.ErrInvalid
	case errors.As(err, &status):
		return nbdStatus(status)
	}
	return nbd.ErrIO
}

func nbdStatus(s wire.Status) error {
	switch {
	case errors.Is(s, wire.StatusCapacityExceeded):
		return nbd.ErrNoSpace
	case errors.Is(s, wire.StatusNamespaceWriteProtected):
		return nbd.ErrPermission
	case errors.Is(s, wire.StatusLBAOutOfRange), errors.Is(s, wire.StatusInvalidField):
		return nbd.ErrInvalid
	}
	return nbd.ErrIO
}
