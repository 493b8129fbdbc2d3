package backend

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Protects the export of a block device that has just come: udev has it locked for a
// moment. The lock of a file is that of another target, which is told at once.
func TestLockWaitsForDevicesOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	open := func() *os.File {
		t.Helper()
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	udev, ours := open(), open()
	if err := unix.Flock(int(udev.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := lock(int(ours.Fd()), false); !errors.Is(err, unix.EWOULDBLOCK) || time.Since(start) > lockWait/2 {
		t.Errorf("a file that is locked: %v after %v", err, time.Since(start))
	}
	time.AfterFunc(100*time.Millisecond, func() { udev.Close() })
	if err := lock(int(ours.Fd()), true); err != nil {
		t.Errorf("a device that is locked for a moment: %v", err)
	}
}
