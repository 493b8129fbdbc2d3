package sockio

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrWouldBlock: nothing could be moved without waiting.
var ErrWouldBlock = errors.New("operation would block")

// MaxIovecs is how many iovecs one call takes (UIO_MAXIOV).
const MaxIovecs = 1024

// hotTime is how long a busy connection waits in a system call, a read in the one
// that reads. That wait can't be interrupted, and occupies a thread and, for the
// runtime, a processor; so after this time the wait goes on in the runtime's poller.
const hotTime = 2 * time.Millisecond

// NetConn is what a Conn is made of: *net.TCPConn or *net.UnixConn.
type NetConn interface {
	net.Conn
	syscall.Conn
}

// Conn is a connected stream socket.
type Conn struct {
	fd            descriptor
	local, remote net.Addr
	r, w          side
	hangup        side // opened by WatchHangup
}

// side is one direction: its system call, and its waits.
type side struct {
	msg  unix.Msghdr
	poll [1]unix.PollFd
	// yielded is when the goroutine of this side last let the scheduler run, and slice
	// when it last let others have its processor.
	yielded, slice time.Time
	// hot: data moved since the last long wait, so that the next wait is made in a
	// system call.
	hot  bool
	stop deadline
	park parking
}

// New takes a socket over from the net package: c is closed, and must not be
// used any more.
func New(c NetConn) (*Conn, error) {
	rc, err := c.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("take over a socket: %w", err)
	}
	k := &Conn{local: c.LocalAddr(), remote: c.RemoteAddr()}
	fd := -1
	if cerr := rc.Control(func(old uintptr) {
		if fd, err = unix.FcntlInt(old, unix.F_DUPFD_CLOEXEC, 0); err != nil {
			return
		}
		timeout := unix.NsecToTimeval(int64(hotTime))
		err = errors.Join(unix.SetNonblock(fd, false), unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout))
	}); cerr != nil {
		err = cerr
	}
	if err != nil {
		_ = unix.Close(fd) // -1 if there is none
		return nil, fmt.Errorf("take over a socket: %w", err)
	}
	k.fd.fd = fd
	if err := errors.Join(k.r.open(fd, unix.POLLIN|unix.POLLRDHUP), k.w.open(fd, unix.POLLOUT)); err != nil {
		k.Close()
		return nil, fmt.Errorf("take over a socket: %w", err)
	}
	// This also takes the socket off the runtime's poller, which would wake for
	// all that arrives.
	if err := c.Close(); err != nil {
		k.Close()
		return nil, fmt.Errorf("take over a socket: %w", err)
	}
	return k, nil
}

// LocalAddr and RemoteAddr are the ends of the connection.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr is the address of the peer.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// Readv fills the iovecs, in order, with what has arrived, and waits if nothing
// has. It returns io.EOF at the end of the stream.
func (c *Conn) Readv(iov []unix.Iovec) (int, error) {
	for {
		flags := unix.MSG_DONTWAIT
		if c.r.hot && !c.r.stop.some() {
			flags = 0
		}
		n, err := c.recv(iov, flags)
		if !errors.Is(err, ErrWouldBlock) {
			return n, err
		}
		c.r.hot = c.r.hot && flags != 0 // otherwise it has waited for hotTime
		if err := c.WaitReadable(); err != nil {
			return 0, err
		}
	}
}

// TryReadv is Readv that answers ErrWouldBlock instead of waiting.
func (c *Conn) TryReadv(iov []unix.Iovec) (int, error) {
	return c.recv(iov, unix.MSG_DONTWAIT)
}

func (c *Conn) recv(iov []unix.Iovec, flags int) (int, error) {
	n, errno, err := c.call(&c.r, unix.SYS_RECVMSG, iov, flags)
	switch {
	case err != nil:
		return 0, err
	case errno != 0:
		return 0, result("read", errno)
	case n == 0:
		return 0, io.EOF
	}
	c.r.hot = true
	return n, nil
}

// Writev sends the iovecs, at most MaxIovecs of them, and waits if the socket
// takes nothing. It may send a part only. With eor the last byte ends a record
// (MSG_EOR): TCP won't put later bytes into the same segment.
func (c *Conn) Writev(iov []unix.Iovec, eor bool) (int, error) {
	for {
		n, err := c.TryWritev(iov, eor)
		if !errors.Is(err, ErrWouldBlock) {
			return n, err
		}
		if err := c.WaitWritable(); err != nil {
			return 0, err
		}
	}
}

// Write sends all of b, as io.Writer has it.
func (c *Conn) Write(b []byte) (int, error) {
	for sent := 0; sent < len(b); {
		iov := [1]unix.Iovec{Iovec(b[sent:])}
		n, err := c.Writev(iov[:], false)
		if sent += n; err != nil {
			return sent, err
		}
	}
	return len(b), nil
}

// TryWritev is Writev that answers ErrWouldBlock instead of waiting.
func (c *Conn) TryWritev(iov []unix.Iovec, eor bool) (int, error) {
	flags := unix.MSG_NOSIGNAL | unix.MSG_DONTWAIT
	if eor {
		flags |= unix.MSG_EOR
	}
	n, errno, err := c.call(&c.w, unix.SYS_SENDMSG, iov, flags)
	if err != nil {
		return 0, err
	}
	if errno != 0 {
		return 0, result("write", errno)
	}
	c.w.hot = true
	return n, nil
}

// call makes one system call on the socket.
func (c *Conn) call(s *side, trap uintptr, iov []unix.Iovec, flags int) (int, unix.Errno, error) {
	if s.stop.passed() {
		return 0, 0, os.ErrDeadlineExceeded
	}
	if !c.fd.acquire() {
		return 0, 0, net.ErrClosed
	}
	defer c.fd.release()
	s.yield()
	s.msg.Iov = unsafe.SliceData(iov)
	s.msg.SetIovlen(len(iov))
	for {
		n, _, errno := unix.Syscall(trap, uintptr(c.fd.fd), uintptr(unsafe.Pointer(&s.msg)), uintptr(flags))
		if errno != unix.EINTR {
			s.msg.Iov = nil
			return int(n), errno, nil
		}
	}
}

func result(op string, errno unix.Errno) error {
	switch errno {
	case 0:
		return nil
	case unix.EAGAIN:
		return ErrWouldBlock
	}
	return fmt.Errorf("%s: %w", op, errno)
}

// WaitReadable waits until there is something to read, or the stream has ended.
func (c *Conn) WaitReadable() error {
	return c.wait(&c.r)
}

// WatchHangup makes WaitHangup possible. It is called before the connection is
// shared, and takes a descriptor more.
func (c *Conn) WatchHangup() error {
	if err := c.hangup.open(c.fd.fd, unix.POLLRDHUP); err != nil {
		return fmt.Errorf("watch for a hang-up: %w", err)
	}
	return nil
}

// WaitHangup waits until HungUp, however much there is to read before the end of
// the stream. Its error says that it can't know.
func (c *Conn) WaitHangup() error {
	if err := c.wait(&c.hangup); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// HungUp says that nothing more comes from the peer than what has come already: it
// has ended its stream or closed, or the connection is broken or closed here.
func (c *Conn) HungUp() bool {
	if !c.fd.acquire() {
		return true
	}
	defer c.fd.release()
	poll := [1]unix.PollFd{{Fd: int32(c.fd.fd), Events: unix.POLLRDHUP}}
	for {
		n, err := unix.Poll(poll[:], 0)
		if !errors.Is(err, unix.EINTR) {
			return n != 0 // an error does not occur with a sound descriptor
		}
	}
}

// open prepares the waits of a side, which are for events.
func (s *side) open(fd int, events int16) error {
	s.poll[0] = unix.PollFd{Fd: int32(fd), Events: events}
	return s.park.open(fd, events)
}

// WaitWritable waits until the socket takes something, or is broken.
func (c *Conn) WaitWritable() error { return c.wait(&c.w) }

// wait waits until the side is ready: for hotTime in poll(2), if data has moved
// lately, then in the runtime's poller.
func (c *Conn) wait(s *side) error {
	if !c.fd.acquire() {
		return net.ErrClosed
	}
	defer c.fd.release()
	for {
		left, err := s.stop.left()
		switch {
		case c.fd.closing():
			return net.ErrClosed
		case err != nil:
			return err
		}
		var ready bool
		if s.hot {
			ready, err = s.pollFor(min(left, hotTime))
			s.hot = ready
		} else {
			ready, err = s.park.wait()
			s.slice = time.Now() // others had the processor
			s.yielded = s.slice
		}
		if err != nil && c.fd.closing() {
			return net.ErrClosed
		}
		if ready || err != nil {
			return err
		}
	}
}

// pollFor blocks the thread until the side is ready or the time is over.
func (s *side) pollFor(t time.Duration) (ready bool, err error) {
	s.yield()
	n, err := unix.Poll(s.poll[:], int((t+time.Millisecond-1)/time.Millisecond))
	if err != nil && !errors.Is(err, unix.EINTR) {
		return false, fmt.Errorf("wait for a socket: %w", err)
	}
	return n > 0, nil
}

// SetReadDeadline ends reads and waits for reading at t, also those in progress,
// with os.ErrDeadlineExceeded; a zero t allows them.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.setDeadline(&c.r, t) }

// SetWriteDeadline is the same for writing.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(&c.w, t) }

func (c *Conn) setDeadline(s *side, t time.Time) error {
	if !c.fd.acquire() {
		return net.ErrClosed
	}
	defer c.fd.release()
	if err := s.park.setDeadline(t, s.stop.set); err != nil && !c.fd.closing() {
		return fmt.Errorf("set deadline: %w", err)
	}
	return nil
}

// SetLinger says what happens to data that is not acknowledged when the socket is
// closed, by Close or because the process dies: with 0 it is thrown away and the peer
// gets a reset, with less the kernel goes on sending it (SO_LINGER).
func (c *Conn) SetLinger(seconds int) error {
	l := unix.Linger{Onoff: 1, Linger: int32(seconds)}
	if seconds < 0 {
		l = unix.Linger{}
	}
	return c.control("set linger", func(fd int) error {
		return unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &l)
	})
}

// Unacked is how many bytes of the stream the peer's TCP has not acknowledged, where
// the end of the stream counts as one; again says that TCP is sending them anew.
func (c *Conn) Unacked() (n int, again bool, err error) {
	err = c.control("ask for the send queue", func(fd int) (err error) {
		if n, err = unix.IoctlGetInt(fd, unix.SIOCOUTQ); err != nil {
			return err
		}
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil {
			again = info.Retransmits > 0
		}
		return err
	})
	return n, again, err
}

// CloseWrite ends the stream to the peer.
func (c *Conn) CloseWrite() error {
	return c.control("close for writing", func(fd int) error { return unix.Shutdown(fd, unix.SHUT_WR) })
}

// control calls f with the descriptor.
func (c *Conn) control(op string, f func(fd int) error) error {
	if !c.fd.acquire() {
		return net.ErrClosed
	}
	defer c.fd.release()
	if err := f(c.fd.fd); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

// Close closes the socket. Reads, writes and waits in progress end with
// net.ErrClosed.
func (c *Conn) Close() error {
	return c.fd.close(func() {
		c.r.park.close()
		c.w.park.close()
		c.hangup.park.close()
	})
}
