package registry

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrLocked tells that another process has the lock.
var ErrLocked = errors.New("locked by another process")

// Locked says whether a process has the lock of a name.
func Locked(dir, name string) (bool, error) {
	f, err := Lock(dir, name)
	switch {
	case errors.Is(err, ErrLocked):
		return true, nil
	case err != nil:
		return false, err
	}
	return false, f.Close()
}

// Lock locks a name in a folder, until the file is closed or the process ends.
func Lock(dir, name string) (*os.File, error) {
	path := filepath.Join(dir, fmt.Sprintf("lock-%x", sha256.Sum256([]byte(name))))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return f, nil
}
