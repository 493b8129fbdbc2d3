package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The ioctls of linux/nbd.h.
const (
	ioctlSetSock       = 0xab00
	ioctlSetBlockSize  = 0xab01
	ioctlDoIt          = 0xab03
	ioctlClearSock     = 0xab04
	ioctlSetSizeBlocks = 0xab07
	ioctlDisconnect    = 0xab08
	ioctlSetTimeout    = 0xab09
	ioctlSetFlags      = 0xab0a
)

// startTime bounds how long the kernel may take to start a device.
const startTime = 5 * time.Second

// errNetlinkOnly is why a device that was attached by ioctls can't be changed.
var errNetlinkOnly = errors.New("only netlink can do that")

// ioctls is the driver without its netlink family: in another network namespace than
// the first, and before Linux 4.12. A device has no identifier then, its connections
// are not replaced, and it ends with the process.
type ioctls struct {
	host *Host

	mu      sync.Mutex
	devices map[int]*ioctlDevice
}

// ioctlDevice is a device that a thread of this process keeps.
type ioctlDevice struct {
	file      *os.File
	blockSize uint32
	done      chan struct{} // closed when the kernel has let go of it
}

func newIoctls(h *Host) *ioctls { return &ioctls{host: h, devices: make(map[int]*ioctlDevice)} }

func (d *ioctls) close() error { return nil }

// connect attaches a device. With AnyDevice it tries those that are free, in order.
func (d *ioctls) connect(cfg *config) (int, error) {
	if cfg.index >= 0 {
		return cfg.index, d.start(cfg.index, cfg)
	}
	all, err := d.host.Devices()
	if err != nil {
		return 0, err
	}
	for _, dev := range all {
		if dev.Connected {
			continue
		}
		if err = d.start(dev.Index, cfg); !errors.Is(err, unix.EBUSY) {
			return dev.Index, err
		}
	}
	return 0, errors.New("no nbd device is free; the module's parameter nbds_max says how many there are")
}

// start sets a device up and has a thread keep it.
func (d *ioctls) start(index int, cfg *config) error {
	dev := Device{Index: index}
	f, err := os.OpenFile(filepath.Join(d.host.Root, dev.Path()), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	x := &ioctlDevice{file: f, blockSize: cfg.blockSize, done: make(chan struct{})}
	began := make(chan error, 1)
	go x.keep(*cfg, began)
	if err := <-began; err != nil {
		<-x.done
		return err
	}
	for end := time.Now().Add(startTime); ; time.Sleep(time.Millisecond) {
		select {
		case <-x.done:
			return unix.EBUSY
		default:
		}
		now, err := d.host.Device(index)
		if err == nil && now.Connected {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("the kernel has not started %s within %v", dev.Path(), startTime)
		}
	}
	d.mu.Lock()
	d.devices[index] = x
	d.mu.Unlock()
	return nil
}

// keep is the thread of a device: the kernel takes the sockets of one thread only,
// which then waits in the kernel for the end of the device. A signal would end it, so
// that the thread takes none. It ends with the goroutine.
func (x *ioctlDevice) keep(cfg config, began chan<- error) {
	defer close(x.done)
	defer x.file.Close()
	runtime.LockOSThread()
	fd := int(x.file.Fd())
	err := x.setUp(fd, &cfg)
	began <- err
	if err == nil {
		_ = unix.IoctlSetInt(fd, ioctlDoIt, 0) // how the device ended is seen by its connections
	}
	_ = unix.IoctlSetInt(fd, ioctlClearSock, 0) // requests that it still has end with EIO
}

func (x *ioctlDevice) setUp(fd int, cfg *config) error {
	var all unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &all, nil); err != nil {
		return err
	}
	for _, s := range cfg.sockets {
		if err := unix.IoctlSetInt(fd, ioctlSetSock, s); err != nil {
			return err
		}
	}
	for _, c := range []struct {
		request uint
		value   uint64
	}{
		{ioctlSetBlockSize, uint64(cfg.blockSize)},
		{ioctlSetSizeBlocks, cfg.size / uint64(cfg.blockSize)},
		{ioctlSetFlags, uint64(cfg.flags)},
		{ioctlSetTimeout, seconds(cfg.timeout)},
	} {
		if err := unix.IoctlSetInt(fd, c.request, int(c.value)); err != nil {
			return err
		}
	}
	return nil
}

// reconfigure changes the size.
func (d *ioctls) reconfigure(cfg *config) error {
	d.mu.Lock()
	x := d.devices[cfg.index]
	d.mu.Unlock()
	if x == nil || cfg.size == 0 || len(cfg.sockets) > 0 {
		return errNetlinkOnly
	}
	return unix.IoctlSetInt(int(x.file.Fd()), ioctlSetSizeBlocks, int(cfg.size/uint64(x.blockSize)))
}

// disconnect ends a device of this process.
func (d *ioctls) disconnect(ctx context.Context, index int) error {
	d.mu.Lock()
	x := d.devices[index]
	delete(d.devices, index)
	d.mu.Unlock()
	if x == nil {
		return errNetlinkOnly
	}
	go func() { _ = unix.IoctlSetInt(int(x.file.Fd()), ioctlDisconnect, 0) }() // it is over already if this fails
	select {
	case <-x.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
