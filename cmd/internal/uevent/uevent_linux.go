package uevent

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/pilebones/go-udev/netlink"
	"golang.org/x/sys/unix"
)

// Source is who tells.
type Source uint8

// The sources, with their multicast groups (UDEV_MONITOR_KERNEL, UDEV_MONITOR_UDEV).
const (
	Kernel Source = 1
	Udev   Source = 2
)

// Event is one uevent. Properties whose value contains "=" are not in Env.
type Event struct {
	Action  string // add, change, remove, ...
	DevPath string // below /sys
	Env     map[string]string
}

// ErrOverrun tells that events were lost: what one wanted to know of them is to be
// looked for in sysfs. The watcher goes on.
var ErrOverrun = errors.New("uevents were lost")

// Watcher hands out events.
type Watcher interface {
	// Next waits for the next event. The error is that of ctx, ErrOverrun, or
	// os.ErrClosed after Close.
	Next(ctx context.Context) (Event, error)
	Close() error
}

// receiveBuffer is enough for some thousands of events.
const receiveBuffer = 4 << 20

// watcher is a netlink socket in the runtime's poller.
type watcher struct {
	file *os.File
	buf  []byte
}

// Watch listens for the events of a source.
func Watch(s Source) (Watcher, error) {
	var c netlink.UEventConn
	if err := c.Connect(netlink.Mode(s)); err != nil {
		return nil, fmt.Errorf("listen for uevents: %w", err)
	}
	unix.CloseOnExec(c.Fd)
	if err := unix.SetNonblock(c.Fd, true); err != nil {
		unix.Close(c.Fd)
		return nil, fmt.Errorf("listen for uevents: %w", err)
	}
	if unix.SetsockoptInt(c.Fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
		_ = unix.SetsockoptInt(c.Fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer) // a small one loses events, which is told
	}
	return &watcher{file: os.NewFile(uintptr(c.Fd), "uevent"), buf: make([]byte, 64<<10)}, nil
}

func (w *watcher) Close() error { return w.file.Close() }

func (w *watcher) Next(ctx context.Context) (Event, error) {
	if err := w.file.SetReadDeadline(time.Time{}); err != nil {
		return Event{}, err
	}
	// A deadline can't be set only when the file is closed, which Next says itself.
	defer context.AfterFunc(ctx, func() { _ = w.file.SetReadDeadline(time.Unix(1, 0)) })()
	for {
		b, err := w.receive()
		switch {
		case ctx.Err() != nil:
			return Event{}, ctx.Err()
		case errors.Is(err, unix.ENOBUFS):
			return Event{}, ErrOverrun
		case err != nil:
			return Event{}, err
		}
		if e, ok := parse(b); ok {
			return e, nil
		}
	}
}

// receive takes one message.
func (w *watcher) receive() ([]byte, error) {
	rc, err := w.file.SyscallConn()
	if err != nil {
		return nil, err
	}
	var n int
	var from unix.Sockaddr
	rerr := rc.Read(func(fd uintptr) bool {
		n, from, err = unix.Recvfrom(int(fd), w.buf, 0)
		return !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
	})
	switch {
	case rerr != nil && !errors.Is(rerr, os.ErrDeadlineExceeded):
		return nil, os.ErrClosed // the only other reason
	case rerr != nil:
		return nil, rerr
	case err != nil:
		return nil, err
	}
	if nl, ok := from.(*unix.SockaddrNetlink); !ok || nl.Groups == 0 {
		return nil, nil // sent to this socket alone, which neither source does
	}
	return w.buf[:n], nil
}

// udevHeader is the length of the header of a message of udev (struct
// monitor_netlink_header), and udevOffset where it says where its properties begin.
const (
	udevHeader = 40
	udevOffset = 16
)

// parse reads a message, of the kernel or of udev.
func parse(b []byte) (Event, bool) {
	var head, properties []byte
	if bytes.HasPrefix(b, []byte("libudev\x00")) {
		if len(b) <= udevHeader {
			return Event{}, false
		}
		offset := binary.NativeEndian.Uint32(b[udevOffset:])
		if offset < udevHeader || uint64(offset) >= uint64(len(b)) {
			return Event{}, false
		}
		head, properties = b[:offset], b[offset:]
	} else {
		n := bytes.IndexByte(b, 0)
		if n < 0 {
			return Event{}, false
		}
		head, properties = b[:n+1], b[n+1:]
	}
	clean := bytes.Clone(head)
	for p := range bytes.SplitSeq(properties, []byte{0}) {
		if bytes.Count(p, []byte("=")) == 1 {
			clean = append(append(clean, p...), 0)
		}
	}
	e, err := netlink.ParseUEvent(clean)
	if err != nil {
		return Event{}, false
	}
	return Event{Action: string(e.Action), DevPath: e.KObj, Env: e.Env}, true
}
