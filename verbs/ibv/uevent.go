package ibv

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// There are two ways to hear that a device is to be removed, and each can come too
// late, for the removal waits until the device is closed, and its steps come in the
// opposite order of that in which the modules were loaded. If rdma_cm was loaded after
// ib_uverbs, the connection manager's event comes first (removal.go); else the device
// file goes first, which the kernel tells by a uevent.

// verbsFile identifies the file for programs of one device, from its addition to its
// removal: a device that comes back under the same name has another one. The zero
// value is that of a device without one.
type verbsFile struct {
	dir   string // in sysfs
	inode uint64
}

// verbsFile is that of the device with the name.
func (s system) verbsFile(device string) verbsFile {
	name := s.uverbs(device)
	if name == "" {
		return verbsFile{}
	}
	dir := filepath.Join(s.sys, "class", "infiniband_verbs", name)
	n, err := inode(dir)
	if err != nil {
		return verbsFile{}
	}
	return verbsFile{dir: dir, inode: n}
}

// removed says that it is there no longer. What can't be asked is no reason to give up
// a device.
func (f verbsFile) removed() bool {
	if f.dir == "" {
		return false
	}
	n, err := inode(f.dir)
	return errors.Is(err, unix.ENOENT) || err == nil && n != f.inode
}

// inode is the number of a folder; sysfs gives each object another one.
func inode(dir string) (uint64, error) {
	var st unix.Stat_t
	err := unix.Stat(dir, &st)
	return st.Ino, err
}

// kernelEvents is the multicast group of the kernel's uevents.
const kernelEvents = 1

// watchRemovals removes devices when their file goes, as long as the process lives.
// Where uevents can't be heard, the connection manager's events have to do.
func (p *Provider) watchRemovals() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return fmt.Errorf("listen for uevents: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: kernelEvents}); err != nil {
		return fmt.Errorf("listen for uevents: %w", err)
	}
	events, err := newEventFD(fd, "uevents")
	if err != nil {
		return fmt.Errorf("listen for uevents: %w", err)
	}
	go func() {
		buf := make([]byte, 8<<10) // the kernel's have 2 KiB at most
		for {
			var n int
			var err error
			if events.wait(func(fd uintptr) bool {
				n, _, err = unix.Recvfrom(int(fd), buf, 0)
				return !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
			}) != nil {
				return
			}
			if err != nil || isRemoval(buf[:n]) { // or some were lost
				p.removeGone()
			}
		}
	}()
	return nil
}

// isRemoval says that an event tells of the end of a device's file. Whoever sends it:
// it is only a reason to look.
func isRemoval(event []byte) bool {
	head, _, _ := bytes.Cut(event, []byte{0})
	path, ok := strings.CutPrefix(string(head), "remove@")
	return ok && strings.Contains(path, "/infiniband_verbs/")
}

// removeGone removes the devices whose file is gone.
func (p *Provider) removeGone() {
	p.mu.Lock()
	var gone []*device
	for _, d := range p.devices {
		if d.file.removed() {
			gone = append(gone, d)
		}
	}
	p.mu.Unlock()
	for _, d := range gone {
		d.remove()
	}
}
