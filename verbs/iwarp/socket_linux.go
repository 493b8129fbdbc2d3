package iwarp

import (
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"

	"rbd/internal/sockio"
)

// tcpSocket is the connection's socket. One goroutine reads; the holder of the
// queue pair's transmit token writes.
type tcpSocket struct {
	*sockio.Conn
	*net.TCPConn
	rc       syscall.RawConn
	readable waiter
	writable waiter
}

// waiter waits for readiness without moving data, so that no memory is in the
// kernel's hands meanwhile. The callback is made once, so that no wait allocates.
type waiter struct {
	fds   [1]unix.PollFd
	ready func(fd uintptr) bool
}

func (w *waiter) init(events int16) {
	w.ready = func(fd uintptr) bool {
		w.fds[0] = unix.PollFd{Fd: int32(fd), Events: events}
		n, err := unix.Poll(w.fds[:], 0)
		return n > 0 || err != nil
	}
}

func newTCPSocket(c *net.TCPConn) (*tcpSocket, error) {
	io, err := sockio.New(c)
	if err != nil {
		return nil, err
	}
	rc, err := c.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("reach the socket: %w", err)
	}
	s := &tcpSocket{Conn: io, TCPConn: c, rc: rc}
	s.readable.init(unix.POLLIN | unix.POLLRDHUP)
	s.writable.init(unix.POLLOUT)
	return s, nil
}

func (s *tcpSocket) WaitReadable() error { return s.rc.Read(s.readable.ready) }
func (s *tcpSocket) WaitWritable() error { return s.rc.Write(s.writable.ready) }

// mss is the size of the segments that TCP sends now.
func (s *tcpSocket) mss() int {
	mss := 0
	err := s.rc.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			mss = int(info.Snd_mss)
		}
	})
	if err != nil {
		return 0
	}
	return mss
}

// pending says whether bytes have arrived that nobody read.
func pending(c *net.TCPConn) bool {
	rc, err := c.SyscallConn()
	if err != nil {
		return false
	}
	n := 0
	if err := rc.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }); err != nil {
		return false
	}
	return n > 0
}
