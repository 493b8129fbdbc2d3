package nbdtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"rbd/nbd"
)

// RAM is a device in memory. Its fields may be set before the first connection.
type RAM struct {
	// Data is the content. It is mapped memory, so that pages that were never
	// written take none.
	Data []byte
	// DeviceInfo is what Info answers.
	DeviceInfo nbd.DeviceInfo
	// Memory bounds the buffers of each queue, in bytes; 0 means 64 MiB.
	Memory int
	// Fault is asked before each request; its error becomes the result.
	Fault func(r *nbd.Request) error
	// Async completes on a goroutine of the queue instead of inside Submit,
	// in random order and in batches of random size, each after Delay.
	Async bool
	Delay time.Duration
	// OpenError makes OpenQueue fail, AllocError every allocation.
	OpenError, AllocError error

	mu    sync.RWMutex // writers take it to make a request atomic
	inUse inUse
}

// NewRAM makes a device of that many bytes that supports everything, in blocks
// of one byte, with requests of up to 1 MiB.
func NewRAM(size int) (*RAM, error) {
	data, err := mapMemory(size)
	if err != nil {
		return nil, err
	}
	return &RAM{Data: data, DeviceInfo: nbd.DeviceInfo{
		Size: uint64(size), MaxTransfer: 1 << 20, MaxZero: 32 << 20, MaxTrim: 32 << 20,
		Flush: true, FUA: true, Trim: true, WriteZeroes: true, FastZero: true, MultiConn: true,
	}}, nil
}

// Close unmaps the memory.
func (d *RAM) Close() error { return unix.Munmap(d.Data) }

// Info answers DeviceInfo.
func (d *RAM) Info() nbd.DeviceInfo { return d.DeviceInfo }

// InUse is how many buffers the queues have given out and not got back.
func (d *RAM) InUse() int { return d.inUse.get() }

// OpenQueue makes a queue.
func (d *RAM) OpenQueue(o nbd.Owner) (nbd.Queue, error) {
	if d.OpenError != nil {
		return nil, d.OpenError
	}
	q := &queue{ram: d, owner: o, pool: newPool(d.Memory, &d.inUse)}
	q.wake.L = &q.mu
	q.pool.err = d.AllocError
	if d.Async {
		go q.work()
	}
	return q, nil
}

// execute does one request.
func (d *RAM) execute(r *nbd.Request) error {
	if d.Fault != nil {
		if err := d.Fault(r); err != nil {
			return err
		}
	}
	if r.Op == nbd.OpFlush {
		return nil
	}
	if r.Offset > uint64(len(d.Data)) || r.Length > uint64(len(d.Data))-r.Offset || r.Length == 0 {
		return fmt.Errorf("range %d+%d is outside the device: %w", r.Offset, r.Length, nbd.ErrInvalid)
	}
	data := d.Data[r.Offset : r.Offset+r.Length]
	if (r.Op == nbd.OpRead || r.Op == nbd.OpWrite) && len(r.Buf.Data) != len(data) {
		return errors.New("buffer and request differ in length")
	}
	if r.Op == nbd.OpRead {
		d.mu.RLock()
		defer d.mu.RUnlock()
		copy(r.Buf.Data, data)
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if r.Op == nbd.OpWrite {
		copy(data, r.Buf.Data)
	} else {
		clear(data)
	}
	return nil
}

// queue is a path to a RAM.
type queue struct {
	ram   *RAM
	owner nbd.Owner
	*pool

	mu      sync.Mutex
	wake    sync.Cond
	pending []*nbd.Request
	closed  bool
	ended   sync.WaitGroup // outstanding requests
}

// Submit executes the requests, or leaves them to the queue's goroutine.
func (q *queue) Submit(reqs []*nbd.Request) {
	if q.ram.Async {
		q.ended.Add(len(reqs))
		q.mu.Lock()
		q.pending = append(q.pending, reqs...)
		q.mu.Unlock()
		q.wake.Signal()
		return
	}
	for _, r := range reqs {
		r.Err = q.ram.execute(r)
	}
	q.owner.Complete(reqs)
}

// work completes requests in random order until the queue is closed.
func (q *queue) work() {
	for {
		q.mu.Lock()
		for len(q.pending) == 0 && !q.closed {
			q.wake.Wait()
		}
		n := len(q.pending)
		if n == 0 {
			q.mu.Unlock()
			return
		}
		rand.Shuffle(n, func(i, j int) { q.pending[i], q.pending[j] = q.pending[j], q.pending[i] })
		n = 1 + rand.IntN(n)
		batch := append([]*nbd.Request(nil), q.pending[:n]...)
		q.pending = append(q.pending[:0], q.pending[n:]...)
		q.mu.Unlock()
		if q.ram.Delay > 0 {
			time.Sleep(q.ram.Delay)
		}
		for _, r := range batch {
			r.Err = q.ram.execute(r)
		}
		q.owner.Complete(batch)
		q.ended.Add(-n)
	}
}

// Close waits for what is outstanding.
func (q *queue) Close() error {
	q.ended.Wait()
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.wake.Broadcast()
	return q.pool.close()
}
