package sockio

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// parking is a wait in the runtime's poller that allocates nothing. The poller does
// not know the socket, since it would wake for all that arrives: it knows an epoll
// instance, which reports the socket once, and only if it has been armed for it.
//
// All descriptors are there from the start: a process that is out of them can still
// wait for the connections that it has.
type parking struct {
	fd     int   // the socket
	events int16 // that are waited for: POLLIN or POLLOUT and what goes with it

	mu    sync.Mutex // orders the deadlines
	epoll *os.File   // the epoll instance
	raw   syscall.RawConn

	// These belong to the one who waits.
	armed  bool // the instance will report the socket
	ready  bool // the socket has been reported
	err    error
	look   func(epoll uintptr) bool
	disarm func(epoll uintptr)
	found  [1]unix.EpollEvent
}

// open makes the epoll instance for a socket.
func (p *parking) open(fd int, events int16) error {
	p.fd, p.events = fd, events
	p.look, p.disarm = p.lookAt, p.disarmAt
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	if err := errors.Join(unix.SetNonblock(epoll, true), p.control(epoll, unix.EPOLL_CTL_ADD, 0)); err != nil {
		_ = unix.Close(epoll)
		return err
	}
	p.epoll = os.NewFile(uintptr(epoll), "epoll") // nonblocking, and so in the poller
	p.raw, err = p.epoll.SyscallConn()
	return err
}

// control says for which events the instance reports the socket, once. Broken
// connections are always among them.
func (p *parking) control(epoll, op int, events int16) error {
	ev := unix.EpollEvent{Events: unix.EPOLLONESHOT | uint32(uint16(events))} // as in poll(2)
	return unix.EpollCtl(epoll, op, p.fd, &ev)
}

// close ends the wait in progress, and all that follow.
func (p *parking) close() {
	if p.epoll != nil {
		_ = p.epoll.Close()
	}
}

// wait waits until one of the events, the deadline, or close, which is an error. ready
// is false after the deadline. The caller holds the socket's descriptor.
func (p *parking) wait() (ready bool, err error) {
	p.ready, p.err = false, nil
	err = p.raw.Read(p.look)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
		if p.armed {
			err = p.raw.Control(p.disarm)
		}
	}
	if err = errors.Join(err, p.err); err != nil {
		return false, fmt.Errorf("wait for a socket: %w", err)
	}
	return p.ready, nil
}

// lookAt is called by the poller, first before it waits and then whenever the instance
// may have something to report, and says whether the wait is over.
func (p *parking) lookAt(epoll uintptr) bool {
	if !p.armed {
		if p.err = p.control(int(epoll), unix.EPOLL_CTL_MOD, p.events); p.err != nil {
			return true
		}
		p.armed = true
	}
	n, err := unix.EpollWait(int(epoll), p.found[:], 0)
	for errors.Is(err, unix.EINTR) {
		n, err = unix.EpollWait(int(epoll), p.found[:], 0)
	}
	p.ready, p.err = n > 0, err
	p.armed = !p.ready
	return p.ready || err != nil
}

// disarmAt takes back what a wait without success has asked for: the poller would be
// woken by all that arrives until somebody looks.
func (p *parking) disarmAt(epoll uintptr) {
	p.err = p.control(int(epoll), unix.EPOLL_CTL_MOD, 0)
	p.armed = p.err != nil
}

// setDeadline ends waits at t, also the one in progress; set makes it known to the
// side's calls at the same time.
func (p *parking) setDeadline(t time.Time, set func(time.Time)) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	set(t)
	return p.epoll.SetReadDeadline(t)
}
