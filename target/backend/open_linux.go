package backend

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// defaultBlockSize is the logical block of a backend that has none of its own.
const defaultBlockSize = 512

// FileOptions say how OpenFile opens.
type FileOptions struct {
	ReadOnly bool
	// CreateSize, if not 0, is the size of the file. One that does not exist is
	// made, sparse; one that does must have this size.
	CreateSize int64
	// BlockSize is 512 or 4096; 0 takes the device's own, and 512 for files.
	BlockSize int
}

// OpenFile opens a regular file or a block device. Its errors are one line that
// name the path, the cause, and the remedy where there is one.
//
// A file that is opened for writing is locked (flock), so that a second target
// can't export it for writing too; a block device is claimed as a mount does.
func OpenFile(path string, opts FileOptions) (*File, error) {
	created, err := prepare(path, opts)
	if err != nil {
		return nil, err
	}
	f, err := open(path, opts)
	if err != nil && created {
		err = errors.Join(err, os.Remove(path))
	}
	return f, err
}

// prepare refuses what is neither file nor block device before it is opened,
// which could hang or have effects, and makes the file if it is to be made.
func prepare(path string, opts FileOptions) (created bool, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && opts.CreateSize != 0:
		return true, create(path, opts)
	case errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("open %s: no such file; size= creates one", path)
	case err != nil:
		return false, openError(path, err, opts.ReadOnly)
	case info.IsDir():
		return false, fmt.Errorf("open %s: it is a directory, not a file or block device", path)
	case !info.Mode().IsRegular() && info.Mode().Type() != fs.ModeDevice:
		return false, fmt.Errorf("open %s: it is neither a regular file nor a block device", path)
	}
	return false, nil
}

func create(path string, opts FileOptions) error {
	bs := opts.BlockSize
	if bs == 0 {
		bs = defaultBlockSize
	}
	if err := checkGeometry("create "+path, opts.CreateSize, bs); err != nil {
		return err
	}
	if opts.ReadOnly {
		return fmt.Errorf("create %s: a new file of zeros can't be exported read-only", path)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("create %s: %w", path, cause(err))
	}
	err = f.Truncate(opts.CreateSize)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("create %s with %d bytes: %w", path, opts.CreateSize, cause(err)), os.Remove(path))
	}
	return nil
}

func open(path string, opts FileOptions) (*File, error) {
	flags := unix.O_RDWR | unix.O_CLOEXEC | unix.O_NONBLOCK
	if opts.ReadOnly {
		flags = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK
	}
	fd, err := openFD(path, flags)
	if err != nil {
		return nil, openError(path, err, opts.ReadOnly)
	}
	f := &File{path: path, fd: fd, attr: Attributes{ReadOnly: opts.ReadOnly, VolatileCache: !opts.ReadOnly}}
	f.flushes = newFlushGroup(f.fdatasync)
	if err := f.setup(opts); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// openFD opens, and claims block devices that are to be written (O_EXCL without
// O_CREAT means that for block devices, and is not defined for files).
func openFD(path string, flags int) (int, error) {
	fd, err := unix.Open(path, flags, 0)
	if err != nil || flags&unix.O_ACCMODE == unix.O_RDONLY {
		return fd, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return fd, err
	}
	claimed, err := unix.Open(path, flags|unix.O_EXCL, 0)
	return claimed, errors.Join(err, unix.Close(fd))
}

func (f *File) setup(opts FileOptions) error {
	var st unix.Stat_t
	if err := unix.Fstat(f.fd, &st); err != nil {
		return fmt.Errorf("open %s: %w", f.path, err)
	}
	f.block = st.Mode&unix.S_IFMT == unix.S_IFBLK
	f.attr.BlockSize = opts.BlockSize
	if f.block {
		if err := f.setupBlock(&st); err != nil {
			return fmt.Errorf("open %s: %w", f.path, err)
		}
	} else {
		f.setupRegular(&st)
	}
	if f.attr.BlockSize == 0 {
		f.attr.BlockSize = defaultBlockSize
	}
	size, err := f.currentSize()
	if err != nil {
		return fmt.Errorf("open %s: %w", f.path, err)
	}
	if opts.CreateSize != 0 && size != opts.CreateSize {
		return fmt.Errorf("open %s: it exists with %d bytes, not with the size=%d asked for", f.path, size, opts.CreateSize)
	}
	if err := checkGeometry("open "+f.path, size, f.attr.BlockSize); err != nil {
		return err
	}
	f.size.Store(size)
	if f.attr.ReadOnly {
		return nil
	}
	return f.setupWriting(&st)
}

// setupWriting takes the lock and opens the file descriptions for FUA writes.
func (f *File) setupWriting(st *unix.Stat_t) error {
	if err := lock(f.fd, f.block); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return fmt.Errorf("open %s: another program has it open for export and locked it; export it there only, or with ro here", f.path)
		}
		return fmt.Errorf("lock %s: %w", f.path, err)
	}
	for i := range f.durable {
		fd, err := unix.Open(f.path, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return openError(f.path, err, false)
		}
		f.durable[i].fd = fd
		f.durable[i].opened = true
		var again unix.Stat_t
		if err := unix.Fstat(fd, &again); err != nil {
			return fmt.Errorf("open %s: %w", f.path, err)
		}
		if again.Dev != st.Dev || again.Ino != st.Ino {
			return fmt.Errorf("open %s: it was replaced while it was being opened", f.path)
		}
	}
	return nil
}

// openError says in one line what is wrong and what helps.
func openError(path string, err error, readOnly bool) error {
	err = cause(err)
	switch {
	case errors.Is(err, unix.EROFS), !readOnly && errors.Is(err, unix.EACCES) && readable(path):
		return fmt.Errorf("open %s for writing: %w; export it with ro", path, err)
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("open %s for writing: %w; it is mounted or part of another device", path, err)
	}
	return fmt.Errorf("open %s: %w", path, err)
}

func readable(path string) bool {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	return err == nil && unix.Close(fd) == nil
}

// cause is the errno alone: the caller's line names the path already.
func cause(err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}
