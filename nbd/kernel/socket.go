package kernel

import (
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// socketBuffer is the send buffer of both ends: two requests of the largest
// transfer fit.
const socketBuffer = 4 << 20

// pair is a connection between the kernel and this process.
type pair struct {
	near   net.Conn // served here
	kernel int      // descriptor of the kernel's end
}

// newPair makes a pair. The kernel's end is to be closed here once the kernel has
// it, so that our end notices when the kernel drops it.
func newPair() (pair, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return pair{}, fmt.Errorf("make a socket pair: %w", err)
	}
	for _, fd := range fds {
		// Without the right to exceed the limit it is as large as the limit allows.
		if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, socketBuffer) != nil {
			_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, socketBuffer)
		}
	}
	f := os.NewFile(uintptr(fds[0]), "nbd")
	defer f.Close()
	near, err := net.FileConn(f)
	if err != nil {
		unix.Close(fds[1])
		return pair{}, fmt.Errorf("make a socket pair: %w", err)
	}
	return pair{near: near, kernel: fds[1]}, nil
}

// newPairs makes n pairs.
func newPairs(n int) (pairs []pair, err error) {
	for range n {
		p, err := newPair()
		if err != nil {
			closePairs(pairs)
			return nil, err
		}
		pairs = append(pairs, p)
	}
	return pairs, nil
}

func closePairs(pairs []pair) {
	for _, p := range pairs {
		p.near.Close()
	}
	closeKernel(pairs)
}

func closeKernel(pairs []pair) {
	for _, p := range pairs {
		unix.Close(p.kernel)
	}
}

func kernelEnds(pairs []pair) (fds []int) {
	for _, p := range pairs {
		fds = append(fds, p.kernel)
	}
	return fds
}

// duplicate makes another descriptor of a socket.
func duplicate(nc net.Conn) (fd int, err error) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return 0, fmt.Errorf("connection of type %T has no file descriptor", nc)
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return 0, err
	}
	cerr := rc.Control(func(s uintptr) { fd, err = unix.FcntlInt(s, unix.F_DUPFD_CLOEXEC, 0) })
	if cerr != nil {
		return 0, cerr
	}
	return fd, err
}
