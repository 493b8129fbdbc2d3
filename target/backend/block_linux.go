package backend

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setupBlock asks the device for its geometry and abilities.
func (f *File) setupBlock(st *unix.Stat_t) error {
	sector, err := unix.IoctlGetInt(f.fd, unix.BLKSSZGET)
	if err != nil {
		return fmt.Errorf("logical block size: %w", err)
	}
	switch {
	case f.attr.BlockSize == 0:
		f.attr.BlockSize = sector
	case f.attr.BlockSize < sector:
		return fmt.Errorf("block-size=%d is less than the device's %d", f.attr.BlockSize, sector)
	}
	rdev := uint64(st.Rdev)
	f.attr.Rotational = rotational(rdev)
	if f.attr.ReadOnly {
		return nil
	}
	f.attr.TrimGranularity = queueNumber(rdev, "discard_granularity")
	f.noDiscard.Store(queueNumber(rdev, "discard_max_bytes") == 0)
	return nil
}

func (f *File) blockDeviceSize() (int64, error) {
	var size uint64
	if err := f.ioctl(unix.BLKGETSIZE64, unsafe.Pointer(&size)); err != nil {
		return 0, err
	}
	if size > maxInt64 {
		return 0, fmt.Errorf("device of %d bytes: %w", size, unix.EFBIG)
	}
	return int64(size), nil
}

// discard gives a range back (BLKDISCARD). What it reads as is not defined.
func (f *File) discard(off, n int64) (bool, error) {
	return f.attempt(&f.noDiscard, func() error { return f.rangeIoctl(unix.BLKDISCARD, off, n) })
}

// zeroOut zeroes a range and keeps it allocated (BLKZEROOUT); the kernel writes
// zeros where the device has no command for it.
func (f *File) zeroOut(off, n int64) (bool, error) {
	return f.attempt(&f.noZeroRange, func() error { return f.rangeIoctl(unix.BLKZEROOUT, off, n) })
}

// unmap zeroes a range by giving it back, where the device reads zeros then.
func (f *File) unmap(off, n int64) (bool, error) {
	return f.attempt(&f.noUnmap, func() error {
		return unix.Fallocate(f.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	})
}

func (f *File) rangeIoctl(request uintptr, off, n int64) error {
	r := [2]uint64{uint64(off), uint64(n)}
	return f.ioctl(request, unsafe.Pointer(&r))
}

func (f *File) ioctl(request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(f.fd), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// rotational tells whether the disk with that device number, or the disk that the
// partition with it is on, spins. What can't be found out does not.
func rotational(dev uint64) bool { return queueNumber(dev, "rotational") == 1 }

// queueNumber reads a number of a disk's queue in sysfs, 0 if there is none.
func queueNumber(dev uint64, name string) int {
	base := fmt.Sprintf("/sys/dev/block/%d:%d/", unix.Major(dev), unix.Minor(dev))
	for _, dir := range []string{"queue/", "../queue/"} { // a disk, a partition
		if b, err := os.ReadFile(base + dir + name); err == nil {
			n, err := strconv.Atoi(strings.TrimSpace(string(b)))
			if err != nil {
				return 0
			}
			return n
		}
	}
	return 0
}
