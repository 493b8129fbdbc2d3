package ibv

import (
	"errors"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// eventFD waits for one of the library's event channels in Go's poller.
type eventFD struct {
	f   *os.File
	raw syscall.RawConn
}

// newEventFD takes a duplicate of the descriptor, which must not block: the
// library closes its own.
func newEventFD(fd int, name string) (*eventFD, error) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	f := os.NewFile(uintptr(dup), name)
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &eventFD{f: f, raw: raw}, nil
}

// wait calls try, and again whenever there may be an event, until it returns true.
// It returns an error when it was interrupted, or closed.
func (e *eventFD) wait(try func(uintptr) bool) error { return e.raw.Read(try) }

// interrupt ends the wait in progress, or the next one; resume lets one wait again.
func (e *eventFD) interrupt() { _ = e.f.SetReadDeadline(time.Unix(1, 0)) }
func (e *eventFD) resume()    { _ = e.f.SetReadDeadline(time.Time{}) }

func (e *eventFD) close() error { return e.f.Close() }
