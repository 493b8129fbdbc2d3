package backend

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// lockWait is how long the lock of a block device is waited for. udev holds one while
// it looks at a device that has just come, or that a program has closed, which takes
// some milliseconds (systemd, "Locking Block Device Access").
const lockWait = 5 * time.Second

// lock locks what was opened for writing (flock). Whoever has a file locked keeps it.
func lock(fd int, block bool) error {
	for end := time.Now().Add(lockWait); ; time.Sleep(20 * time.Millisecond) {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		if !block || !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(end) {
			return err
		}
	}
}
