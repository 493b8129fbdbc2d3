package sockio

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// parking is a wait in the runtime's poller. A duplicate of the descriptor is given
// to the poller for the time of the wait only: the poller would wake for all that
// arrives otherwise.
type parking struct {
	mode *blockingMode // of the socket
	mu   sync.Mutex
	file *os.File // while somebody waits
	// spare is the duplicate for the next wait, taken in advance: a process that is
	// out of descriptors can still wait for those that it has. 0 is none.
	spare int
}

// blockingMode is whether calls on the socket block unless they say otherwise. It
// belongs to the socket, not to a descriptor: both sides and their duplicates share it.
// The poller takes no descriptor that blocks, so that the socket must not while a side
// is parked.
type blockingMode struct {
	mu     sync.Mutex
	parked int // sides
}

// file makes fd one that waits in the poller. Who has it calls left afterwards.
func (m *blockingMode) file(fd int) (*os.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, err
	}
	m.parked++
	return os.NewFile(uintptr(fd), "socket"), nil
}

// left makes the socket block again when no side is parked.
func (m *blockingMode) left(fd int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.parked--; m.parked > 0 {
		return nil
	}
	return unix.SetNonblock(fd, false)
}

// reserve makes the duplicate for the next wait.
func (p *parking) reserve(fd int) (err error) {
	if p.spare, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3); err != nil {
		p.spare = 0
		return fmt.Errorf("wait for a socket: %w", err)
	}
	return nil
}

// close frees what is left when nobody waits any more.
func (p *parking) close() {
	if p.spare != 0 {
		_ = unix.Close(p.spare)
	}
}

// wait waits until one of the events, the deadline, or closing, which interrupt
// tells of. ready is false if it was interrupted.
func (p *parking) wait(fd int, events int16, stop *deadline, closing func() bool) (ready bool, err error) {
	if p.spare == 0 {
		if err := p.reserve(fd); err != nil {
			return false, err
		}
	}
	// Calls that must not wait say so themselves, and those that may wait come here
	// when they can't.
	f, err := p.mode.file(p.spare)
	if err != nil {
		return false, fmt.Errorf("wait for a socket: %w", err)
	}
	p.spare = 0
	defer func() {
		p.mu.Lock()
		p.file = nil
		p.mu.Unlock()
		err = errors.Join(err, p.mode.left(fd), f.Close())
		_ = p.reserve(fd) // else the next wait tries again
	}()
	p.mu.Lock()
	p.file = f
	p.set(stop, closing())
	p.mu.Unlock()
	rc, err := f.SyscallConn()
	if err != nil {
		return false, fmt.Errorf("wait for a socket: %w", err)
	}
	look := func(fd uintptr) bool {
		fds := [1]unix.PollFd{{Fd: int32(fd), Events: events}}
		n, err := unix.Poll(fds[:], 0)
		ready = n > 0 || err != nil && !errors.Is(err, unix.EINTR) // a broken one shows in the call that follows
		return ready
	}
	if events&unix.POLLIN != 0 {
		err = rc.Read(look)
	} else {
		err = rc.Write(look)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) { // or an interruption
		err = nil
	}
	return ready, err
}

// interrupt tells the wait in progress that the deadline has changed, or that the
// descriptor is being closed.
func (p *parking) interrupt(stop *deadline, closing bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.file != nil {
		p.set(stop, closing)
	}
}

// set gives the poller its deadline. The caller holds mu.
func (p *parking) set(stop *deadline, closing bool) {
	t := stop.time()
	if closing {
		t = time.Unix(1, 0)
	}
	// It can't fail: the file is open, and in the poller.
	_ = p.file.SetDeadline(t)
}
