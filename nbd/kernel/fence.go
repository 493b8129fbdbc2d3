package kernel

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"rbd/nbd"
)

// fence keeps the connections of one device from doing a request of which another
// connection still has a copy in hand. See the package documentation.
//
// That it misses nothing follows from the order of events. The kernel (1) shuts a
// socket down, (2) sends the request again on another. Here a connection (a) counts
// its requests as in hand, (b) looks whether its own socket is shut down. If (b)
// finds nothing, (1) comes after it, and so after (a): who reads what (2) sent finds
// the socket shut down and the requests counted.
type fence struct {
	list   sync.RWMutex // guards queues; held while their sockets are looked at
	queues []*fencedQueue

	mu      sync.Mutex
	cond    sync.Cond // a queue has nothing in hand any more, or broken
	waiters atomic.Int32
	broken  bool // nobody waits any more
}

func newFence() *fence {
	f := &fence{}
	f.cond.L = &f.mu
	return f
}

// breakUp lets nobody wait any more: their requests are dropped, and so are all
// that come.
func (f *fence) breakUp() {
	f.mu.Lock()
	f.broken = true
	f.cond.Broadcast()
	f.mu.Unlock()
}

// wake tells those who wait that a queue has nothing in hand.
func (f *fence) wake() {
	if f.waiters.Load() > 0 {
		f.mu.Lock()
		f.cond.Broadcast()
		f.mu.Unlock()
	}
}

// cut shuts the sockets of all connections down.
func (f *fence) cut() {
	f.list.RLock()
	defer f.list.RUnlock()
	for _, q := range f.queues {
		_ = unix.Shutdown(q.socket, unix.SHUT_RDWR) // an error says that it is already
	}
}

// verdict is what a connection may do with its requests.
type verdict uint8

const (
	proceed verdict = iota
	hold            // another connection that is shut down has requests in hand
	drop            // this connection is shut down
)

// look decides for q. The sockets of connections with nothing in hand need no look:
// what they get in hand from now on they look after themselves.
func (f *fence) look(q *fencedQueue) verdict {
	f.list.RLock()
	defer f.list.RUnlock()
	q.polls = append(q.polls[:0], unix.PollFd{Fd: int32(q.socket)}) // POLLHUP is always told
	for _, p := range f.queues {
		if p != q && p.inHand.Load() > 0 {
			q.polls = append(q.polls, unix.PollFd{Fd: int32(p.socket)})
		}
	}
	n, err := unix.Poll(q.polls, 0)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Poll(q.polls, 0)
	}
	switch {
	case err != nil, q.polls[0].Revents != 0: // with sound descriptors there is no error
		return drop
	case n > 0:
		return hold
	}
	return proceed
}

// pass waits until q may submit its requests, and says whether it may.
func (f *fence) pass(q *fencedQueue) bool {
	v := f.look(q)
	if v != hold {
		return v == proceed
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiters.Add(1)
	defer f.waiters.Add(-1)
	for !f.broken {
		if v = f.look(q); v != hold {
			return v == proceed
		}
		f.cond.Wait()
	}
	return false
}

// fencedDevice is the device as one connection of the kernel sees it.
type fencedDevice struct {
	nbd.Device
	fence  *fence
	socket int          // see fencedQueue
	used   *atomic.Bool // set with the first request
}

// Info leaves the size to the kernel and to the device, so that a device that has
// grown can be used at once.
func (d fencedDevice) Info() nbd.DeviceInfo {
	i := d.Device.Info()
	i.Size = math.MaxInt64
	return i
}

// OpenQueue opens the connection's queue behind the fence.
func (d fencedDevice) OpenQueue(o nbd.Owner) (nbd.Queue, error) {
	q := &fencedQueue{fence: d.fence, owner: o, socket: d.socket, used: d.used}
	var err error
	if q.Queue, err = d.Device.OpenQueue(q); err != nil {
		return nil, err
	}
	d.fence.list.Lock()
	d.fence.queues = append(d.fence.queues, q)
	d.fence.list.Unlock()
	return q, nil
}

// fencedQueue is the queue of one connection. Submit may wait, which only stops
// the reader of this connection.
type fencedQueue struct {
	nbd.Queue
	fence  *fence
	owner  nbd.Owner
	socket int // a descriptor to look at, which is open for as long as the queue
	used   *atomic.Bool
	inHand atomic.Int64 // requests in Submit or submitted
	polls  []unix.PollFd
}

// Submit submits the requests when it is safe.
func (q *fencedQueue) Submit(reqs []*nbd.Request) {
	q.inHand.Add(int64(len(reqs)))
	q.used.Store(true)
	if q.fence.pass(q) {
		q.Queue.Submit(reqs)
		return
	}
	for _, r := range reqs {
		r.Err = nbd.ErrShutdown // nobody reads it: the socket is shut down
	}
	q.Complete(reqs)
}

// Abandon lets the device give up what it keeps back of a connection that is shut
// down: those that wait here have the copies that the kernel has sent again.
func (q *fencedQueue) Abandon() {
	if a, ok := q.Queue.(nbd.Abandoner); ok {
		a.Abandon()
	}
}

// Complete is the owner's side.
func (q *fencedQueue) Complete(batch []*nbd.Request) {
	n := int64(len(batch))
	q.owner.Complete(batch)
	if q.inHand.Add(-n) == 0 {
		q.fence.wake()
	}
}

// Close takes the queue out of the fence.
func (q *fencedQueue) Close() error {
	err := q.Queue.Close()
	f := q.fence
	f.list.Lock()
	for i, p := range f.queues {
		if p == q {
			f.queues = append(f.queues[:i:i], f.queues[i+1:]...)
			break
		}
	}
	f.list.Unlock()
	f.wake()
	return err
}
