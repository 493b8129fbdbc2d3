package iwarp

import (
	"io"
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"rbd/internal/sockio"
)

// bytesOf is the memory of an iovec.
func bytesOf(v unix.Iovec) []byte { return unsafe.Slice(v.Base, int(v.Len)) }

// scatter copies b into the iovecs and says how much found room.
func scatter(iov []unix.Iovec, b []byte) (n int) {
	for _, v := range iov {
		k := copy(bytesOf(v), b)
		b = b[k:]
		n += k
	}
	return n
}

func gather(iov []unix.Iovec) (b []byte) {
	for _, v := range iov {
		b = append(b, bytesOf(v)...)
	}
	return b
}

// memPipe is one direction of a connection in memory, which holds at most limit
// bytes and moves at most chunk bytes per call.
type memPipe struct {
	mu           sync.Mutex
	cond         sync.Cond
	buf          []byte
	limit, chunk int
	closed       bool
}

func newMemPipe(limit, chunk int) *memPipe {
	p := &memPipe{limit: limit, chunk: chunk}
	p.cond.L = &p.mu
	return p
}

func (p *memPipe) close() {
	p.mu.Lock()
	p.closed = true
	p.cond.Broadcast()
	p.mu.Unlock()
}

// memStream is one end of a connection in memory. Deadlines in the past end
// waits; later ones are taken as none.
type memStream struct {
	in, out    *memPipe
	rDue, wDue bool // guarded by in.mu and out.mu
}

func memStreams(limit, chunk int) (a, b *memStream) {
	x, y := newMemPipe(limit, chunk), newMemPipe(limit, chunk)
	return &memStream{in: x, out: y}, &memStream{in: y, out: x}
}

func (s *memStream) read(iov []unix.Iovec, wait bool) (int, error) {
	p := s.in
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case s.rDue:
			return 0, os.ErrDeadlineExceeded
		case len(p.buf) > 0:
			if iov == nil {
				return 0, nil
			}
			n := scatter(iov, p.buf[:min(len(p.buf), p.chunk)])
			p.buf = p.buf[n:]
			p.cond.Broadcast()
			return n, nil
		case p.closed:
			return 0, io.EOF
		case !wait:
			return 0, sockio.ErrWouldBlock
		}
		p.cond.Wait()
	}
}

func (s *memStream) write(iov []unix.Iovec, wait bool) (int, error) {
	p := s.out
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case s.wDue:
			return 0, os.ErrDeadlineExceeded
		case p.closed:
			return 0, unix.EPIPE
		case len(p.buf) < p.limit:
			b := gather(iov)
			n := min(len(b), p.limit-len(p.buf), p.chunk)
			p.buf = append(p.buf, b[:n]...)
			p.cond.Broadcast()
			return n, nil
		case !wait:
			return 0, sockio.ErrWouldBlock
		}
		p.cond.Wait()
	}
}

func (s *memStream) Readv(iov []unix.Iovec) (int, error)               { return s.read(iov, true) }
func (s *memStream) TryReadv(iov []unix.Iovec) (int, error)            { return s.read(iov, false) }
func (s *memStream) TryWritev(iov []unix.Iovec, eor bool) (int, error) { return s.write(iov, false) }
func (s *memStream) WaitReadable() error                               { _, err := s.read(nil, true); return ignoreEOF(err) }
func (s *memStream) WaitWritable() error                               { _, err := s.write(nil, true); return err }
func (s *memStream) SetLinger(int) error                               { return nil }
func (s *memStream) Unacked() (int, bool, error)                       { return 0, false, nil }
func (s *memStream) CloseWrite() error                                 { s.out.close(); return nil }
func (s *memStream) Close() error                                      { s.out.close(); s.in.close(); return nil }

func ignoreEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

func (s *memStream) SetReadDeadline(t time.Time) error {
	s.in.mu.Lock()
	s.rDue = !t.IsZero() && t.Before(time.Now())
	s.in.cond.Broadcast()
	s.in.mu.Unlock()
	return nil
}

func (s *memStream) SetWriteDeadline(t time.Time) error {
	s.out.mu.Lock()
	s.wDue = !t.IsZero() && t.Before(time.Now())
	s.out.cond.Broadcast()
	s.out.mu.Unlock()
	return nil
}
