package nbd

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// socketBuffer is the send buffer asked for on a unix socket, where it is not
// tuned automatically. The kernel caps it at net.core.wmem_max.
const socketBuffer = 2 << 20

// maxUnixPath is the longest path of a unix socket (sun_path).
const maxUnixPath = 107

// ErrInUse is wrapped by the error of [ListenUnix] for a path with a living
// server behind it.
var ErrInUse = errors.New("socket is in use by a running server")

// ListenUnix listens on a unix socket. A socket that a dead server has left
// behind is replaced; a living one, and anything else at path, is not touched.
// Closing the listener removes the socket.
func ListenUnix(path string) (net.Listener, error) {
	if len(path) > maxUnixPath {
		return nil, fmt.Errorf("listen on %s: path is longer than %d bytes", path, maxUnixPath)
	}
	if err := removeStale(path); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, syscallError(err))
	}
	l.SetUnlinkOnClose(false)
	info, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", path, err), l.Close())
	}
	return &unixListener{UnixListener: l, path: path, info: info}, nil
}

// removeStale removes a socket that nobody listens on.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("there is a file that is not a socket")
	}
	c, err := net.DialTimeout("unix", path, time.Second)
	switch {
	case err == nil:
		c.Close()
		return ErrInUse
	case errors.Is(err, syscall.ECONNREFUSED):
		return os.Remove(path)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, syscall.EAGAIN), os.IsTimeout(err): // its backlog is full
		return ErrInUse
	}
	return syscallError(err)
}

// syscallError strips what the net package says about the operation.
func syscallError(err error) error {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// unixListener removes its socket when it is closed, if it still is its own.
type unixListener struct {
	*net.UnixListener
	path string
	info fs.FileInfo
	once sync.Once
}

func (l *unixListener) Close() error {
	l.once.Do(func() {
		if info, err := os.Lstat(l.path); err == nil && os.SameFile(info, l.info) {
			os.Remove(l.path)
		}
	})
	return l.UnixListener.Close()
}

// tune sets what makes a socket fast. TCP_NODELAY is the net package's default.
func tune(nc net.Conn) {
	if u, ok := nc.(*net.UnixConn); ok {
		_ = u.SetWriteBuffer(socketBuffer) // without it, replies take more turns, no worse
	}
}

// clientName tells clients apart in the log: by address, or by process.
func clientName(nc net.Conn) string {
	u, ok := nc.(*net.UnixConn)
	if !ok {
		return nc.RemoteAddr().String()
	}
	var cred *unix.Ucred
	rc, err := u.SyscallConn()
	if err == nil {
		cerr := rc.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
		err = errors.Join(err, cerr)
	}
	if err != nil {
		return "unix"
	}
	return fmt.Sprintf("pid %d", cred.Pid)
}

// temporary tells errors of accept that pass: of the one connection, or for
// want of descriptors or memory.
func temporary(err error) bool {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return false
	}
	switch errno {
	case syscall.ECONNABORTED, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM:
		return true
	}
	return false
}
