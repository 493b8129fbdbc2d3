package kernel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"rbd/nbd"
)

// AnyDevice lets the kernel choose a free device.
const AnyDevice = -1

// Options say how to attach.
type Options struct {
	// Index is N of /dev/nbdN, or AnyDevice.
	Index int
	// Identifier is the backend identifier.
	Identifier string
	// Connections is how many sockets the kernel gets; it uses one per CPU.
	Connections int
	// RequestTimeout is how long the kernel waits for an answer before it gives up
	// the connection and sends the request again.
	RequestTimeout time.Duration
	// DeadConnTimeout is how long the kernel keeps requests while there is no
	// connection. Then they end with EIO.
	DeadConnTimeout time.Duration
}

// ErrDetached is why an attachment ended that somebody else has detached.
var ErrDetached = errors.New("the device was detached by another program")

// Attachment is a device that this process serves.
type Attachment struct {
	host   *Host
	server *nbd.Server
	export nbd.Export
	opts   Options
	log    *slog.Logger
	fence  *fence
	index  atomic.Int32

	size atomic.Uint64 // as the kernel has it

	mu     sync.Mutex
	ending bool          // no connection is replaced any more
	live   int           // connections that are served or being replaced
	err    error         // why it ended
	done   chan struct{} // closed when no connection is left
	cut    chan struct{} // closed when ending becomes true
}

// Attach makes an export the device that the options name.
func (h *Host) Attach(server *nbd.Server, export nbd.Export, opts Options) (*Attachment, error) {
	a := h.newAttachment(server, export, opts)
	info := export.Device.Info()
	flags, err := transmissionFlags(info)
	if err != nil {
		return nil, err
	}
	pairs, err := newPairs(opts.Connections)
	if err != nil {
		return nil, err
	}
	// The kernel may read at once.
	a.size.Store(info.Size)
	a.serveAll(pairs)
	index, err := h.control.connect(&config{
		index: opts.Index, size: info.Size, blockSize: max(info.MinBlock, 512), flags: flags,
		timeout: opts.RequestTimeout, deadConn: opts.DeadConnTimeout, identifier: opts.Identifier, sockets: kernelEnds(pairs),
	})
	if err != nil {
		a.end(err)
		closeKernel(pairs)
		<-a.done
		return nil, attachError(err, opts.Index, info)
	}
	a.index.Store(int32(index))
	closeKernel(pairs)
	h.tune(a.id(), info.MaxTransfer, info.MaxTrim)
	return a, nil
}

// transmissionFlags are what the kernel is told of the device. It is not told of Write
// Zeroes: it would send one of up to 4 GiB, and lets nobody set it a limit. A disk that
// needs longer for it than the time of a request would never be done with it, for the
// copy that the kernel sends then has to wait for the first one, and what is left of its
// own time is too short again. Without it the kernel writes zeros, in requests as long
// as any other.
func transmissionFlags(info nbd.DeviceInfo) (uint16, error) {
	info.WriteZeroes = false
	return nbd.TransmissionFlags(info)
}

// attachError says which device was not attached, and why if that is known.
func attachError(err error, index int, info nbd.DeviceInfo) error {
	what := "attach a kernel device"
	if index >= 0 {
		what = "attach " + Device{Index: index}.Path()
	}
	switch {
	case errors.Is(err, unix.EBUSY):
		err = errors.New("it is in use; `auto` takes a free one")
	case errors.Is(err, unix.EINVAL) && info.MinBlock > 4096:
		err = fmt.Errorf("this kernel does not take blocks of %d bytes: %w", info.MinBlock, err)
	}
	return fmt.Errorf("%s: %w", what, permission(err))
}

func (h *Host) newAttachment(server *nbd.Server, export nbd.Export, opts Options) *Attachment {
	a := &Attachment{
		host: h, server: server, export: export, opts: opts, fence: newFence(),
		log:  h.log.With("export", export.Name),
		done: make(chan struct{}), cut: make(chan struct{}),
	}
	a.index.Store(AnyDevice)
	return a
}

// id is the device, without its state.
func (a *Attachment) id() Device { return Device{Index: int(a.index.Load())} }

// Device is the state of the device.
func (a *Attachment) Device() (Device, error) { return a.host.Device(a.id().Index) }

// Path is /dev/nbdN.
func (a *Attachment) Path() string { return a.id().Path() }

// Size is the size that the kernel's device has, in bytes.
func (a *Attachment) Size() uint64 { return a.size.Load() }

// Done is closed when the device is detached, by whomever.
func (a *Attachment) Done() <-chan struct{} { return a.done }

// Err is why the device ended after Done: nil if Detach or ForceDetach ended it.
func (a *Attachment) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// end lets no connection be replaced any more. The first cause is kept.
func (a *Attachment) end(cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ending {
		return
	}
	a.ending, a.err = true, cause
	close(a.cut)
	if a.live == 0 {
		close(a.done)
	}
}

func (a *Attachment) isEnding() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.ending
}

// serveAll serves the near ends.
func (a *Attachment) serveAll(pairs []pair) {
	a.mu.Lock()
	a.live += len(pairs)
	a.mu.Unlock()
	for _, p := range pairs {
		go a.keep(p)
	}
}

// leave ends the goroutine of a connection, and the attachment with the last one.
func (a *Attachment) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.live--; a.live == 0 && a.ending {
		close(a.done)
	}
}

// Resize gives the kernel's device another size. The kernel does not ask whether
// what is beyond a smaller size is used: a device that somebody uses does not
// shrink.
func (a *Attachment) Resize(size uint64) error {
	old := a.size.Load()
	switch {
	case size == old:
		return nil
	case size == 0 || size > math.MaxInt64:
		return fmt.Errorf("resize %s: %d bytes is no size for a device", a.Path(), size)
	case size < old:
		users, err := a.host.settledUsers(context.Background(), a.id())
		if err != nil {
			return fmt.Errorf("shrink %s from %d to %d bytes: %w", a.Path(), old, size, err)
		}
		if len(users) > 0 {
			return fmt.Errorf("shrink %s from %d to %d bytes: %w", a.Path(), old, size, &BusyError{Device: a.id(), Users: users})
		}
	}
	// Without the block size the kernel keeps the one that it has.
	if err := a.host.control.reconfigure(&config{index: a.id().Index, size: size, identifier: a.opts.Identifier}); err != nil {
		return fmt.Errorf("resize %s to %d bytes: %w", a.Path(), size, err)
	}
	a.size.Store(size)
	return nil
}
