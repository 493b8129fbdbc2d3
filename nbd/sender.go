package nbd

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"rbd/internal/sockio"
)

// maxIovecs is the most pieces of one gathered write: 128 READ replies.
const maxIovecs = 256

// sendQueueSize is a power of two: a slot has at most a header and data.
const sendQueueSize = 2 * MaxRequests

// piece is a part of the stream to the client.
type piece struct {
	data []byte
	pos  int   // where data begins in the arena; -1 for device memory
	slot int32 // whose reply it is
	last bool  // the slot is free when the piece is sent
}

// sendQueue holds replies that are not yet in the socket, and their headers.
//
// The arena needs no account of what is free in it: each slot has at most one
// header in the queue, the queue is first in, first out, and the arena has
// room for the headers of all slots and for the gap where it wraps.
type sendQueue struct {
	ring       [sendQueueSize]piece
	head, tail uint32
	arena      []byte
	end        int // where the next header goes
}

func (q *sendQueue) init() { q.arena = make([]byte, (MaxRequests+1)*maxReplyHeader) }

func (q *sendQueue) empty() bool { return q.head == q.tail }

// header gives room for the longest header; what was used of it is told to
// putHeader.
func (q *sendQueue) header() []byte {
	if q.empty() {
		q.end = 0
	}
	if len(q.arena)-q.end < maxReplyHeader {
		q.end = 0
	}
	return q.arena[q.end : q.end+maxReplyHeader]
}

func (q *sendQueue) putHeader(n int, s *slot, last bool) {
	q.put(piece{data: q.arena[q.end : q.end+n], pos: q.end, slot: int32(s.req.Index), last: last})
	q.end += n
}

func (q *sendQueue) putData(s *slot) {
	q.put(piece{data: s.req.Buf.Data, pos: -1, slot: int32(s.req.Index), last: true})
}

func (q *sendQueue) put(p piece) {
	q.ring[q.tail%sendQueueSize] = p
	q.tail++
}

// gather fills iov from the front of the queue. Headers that lie side by side
// share an iovec.
func (q *sendQueue) gather(iov []unix.Iovec) int {
	n, end := 0, -1
	for i := q.head; i != q.tail; i++ {
		p := &q.ring[i%sendQueueSize]
		switch {
		case p.pos >= 0 && p.pos == end:
			iov[n-1].SetLen(int(iov[n-1].Len) + len(p.data))
		case n == len(iov):
			return n
		default:
			iov[n] = sockio.Iovec(p.data)
			n++
		}
		end = -1
		if p.pos >= 0 {
			end = p.pos + len(p.data)
		}
	}
	return n
}

// send transmits what is queued, unless somebody is at it. mu is held by the
// caller and released when send returns.
func (c *conn) send() {
	if c.active {
		c.mu.Unlock()
		return
	}
	c.active = true
	c.transmit(false)
}

// transmit is the one way to the socket. The caller holds mu, which is released
// on return, and has the right to transmit, which ends with the queue or goes
// to the writer goroutine. Only that one may wait.
func (c *conn) transmit(wait bool) {
	for {
		if c.broken {
			c.discard()
		}
		k := c.out.gather(c.iov[:])
		if k == 0 {
			c.active = false
			c.mu.Unlock()
			return
		}
		c.mu.Unlock()
		var n int
		var err error
		if wait {
			n, err = c.sock.Writev(c.iov[:k], false)
		} else {
			n, err = c.sock.TryWritev(c.iov[:k], false)
		}
		if errors.Is(err, sockio.ErrWouldBlock) {
			c.resume <- struct{}{} // has room: there is one right to transmit
			return
		}
		c.mu.Lock()
		if err != nil {
			c.fail(fmt.Errorf("send replies: %w", err))
			continue
		}
		c.sent(n)
	}
}

// writer continues what had to wait for the socket.
func (c *conn) writer() {
	for range c.resume {
		c.mu.Lock()
		c.transmit(true)
	}
}

// sent takes n bytes off the queue. mu is held.
func (c *conn) sent(n int) {
	c.sentBytes += uint64(n)
	q := &c.out
	for n > 0 {
		p := &q.ring[q.head%sendQueueSize]
		if n < len(p.data) {
			p.data = p.data[n:]
			if p.pos >= 0 {
				p.pos += n
			}
			return
		}
		n -= len(p.data)
		q.head++
		if p.last {
			c.release(&c.slots[p.slot])
		}
	}
}

// discard drops the queue of a broken connection. mu is held.
func (c *conn) discard() {
	for q := &c.out; !q.empty(); {
		p := &q.ring[q.head%sendQueueSize]
		q.head++
		if p.last {
			c.release(&c.slots[p.slot])
		}
	}
}
