package sockio

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrWouldBlock: nothing could be moved without waiting.
var ErrWouldBlock = errors.New("operation would block")

// MaxIovecs is how many iovecs one call takes (UIO_MAXIOV).
const MaxIovecs = 1024

// Conn is a stream socket whose deadlines and Close are those of the net.Conn
// it was made from.
type Conn struct {
	rc   syscall.RawConn
	r, w side
}

// side is one direction: the arguments and results of the call in progress, and
// the two callbacks for RawConn, made once so that no call allocates.
type side struct {
	iov   []unix.Iovec
	msg   unix.Msghdr
	flags int
	n     int
	errno syscall.Errno
	try   func(fd uintptr) bool
	wait  func(fd uintptr) bool
}

// New makes a Conn on a connected stream socket such as *net.TCPConn or
// *net.UnixConn.
func New(c syscall.Conn) (*Conn, error) {
	rc, err := c.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("reach the socket: %w", err)
	}
	k := &Conn{rc: rc}
	k.r.try = func(fd uintptr) bool { k.r.recv(fd); return true }
	k.r.wait = func(fd uintptr) bool { k.r.recv(fd); return k.r.errno != unix.EAGAIN }
	k.w.try = func(fd uintptr) bool { k.w.send(fd); return true }
	k.w.wait = func(fd uintptr) bool { k.w.send(fd); return k.w.errno != unix.EAGAIN }
	return k, nil
}

// Readv fills the iovecs, in order, with what has arrived, and waits if nothing
// has. It returns io.EOF at the end of the stream.
func (c *Conn) Readv(iov []unix.Iovec) (int, error) {
	c.r.iov = iov
	return c.r.result("read", true, c.rc.Read(c.r.wait))
}

// TryReadv is Readv that answers ErrWouldBlock instead of waiting.
func (c *Conn) TryReadv(iov []unix.Iovec) (int, error) {
	c.r.iov = iov
	return c.r.result("read", true, c.rc.Read(c.r.try))
}

// Writev sends the iovecs, at most MaxIovecs of them, and waits if the socket
// takes nothing. It may send a part only. With eor the last byte ends a record
// (MSG_EOR): TCP won't put later bytes into the same segment.
func (c *Conn) Writev(iov []unix.Iovec, eor bool) (int, error) {
	c.w.iov, c.w.flags = iov, sendFlags(eor)
	return c.w.result("write", false, c.rc.Write(c.w.wait))
}

// TryWritev is Writev that answers ErrWouldBlock instead of waiting.
func (c *Conn) TryWritev(iov []unix.Iovec, eor bool) (int, error) {
	c.w.iov, c.w.flags = iov, sendFlags(eor)
	return c.w.result("write", false, c.rc.Write(c.w.try))
}

func sendFlags(eor bool) int {
	flags := unix.MSG_NOSIGNAL | unix.MSG_DONTWAIT
	if eor {
		flags |= unix.MSG_EOR
	}
	return flags
}

// result makes the outcome of a RawConn call: its own error when the callback
// did not run (closed, deadline), else the system call's.
func (s *side) result(op string, reading bool, err error) (int, error) {
	n, errno := s.n, s.errno
	s.iov, s.n, s.errno = nil, 0, 0
	switch {
	case err != nil:
		return 0, err
	case errno == unix.EAGAIN:
		return 0, ErrWouldBlock
	case errno != 0:
		return 0, fmt.Errorf("%s: %w", op, errno)
	case n == 0 && reading:
		return 0, io.EOF
	}
	return n, nil
}

func (s *side) recv(fd uintptr) {
	for {
		n, _, e := unix.Syscall(unix.SYS_READV, fd, uintptr(unsafe.Pointer(unsafe.SliceData(s.iov))), uintptr(len(s.iov)))
		if s.n, s.errno = int(n), e; e != unix.EINTR {
			return
		}
	}
}

func (s *side) send(fd uintptr) {
	s.msg.Iov = unsafe.SliceData(s.iov)
	s.msg.SetIovlen(len(s.iov))
	for {
		n, _, e := unix.Syscall(unix.SYS_SENDMSG, fd, uintptr(unsafe.Pointer(&s.msg)), uintptr(s.flags))
		if s.n, s.errno = int(n), e; e != unix.EINTR {
			s.msg.Iov = nil
			return
		}
	}
}
