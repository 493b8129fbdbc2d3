package backend

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// durableFDs is how many FUA writes run at the same time.
const durableFDs = 4

// File is a regular file or a block device. Make one with [OpenFile].
type File struct {
	path  string
	fd    int
	block bool
	attr  Attributes
	size  atomic.Int64

	flushes *flushGroup
	// durable are file descriptions of their own for FUA writes, each used by one
	// writer at a time: the system reports a lost write once for each description,
	// so neither a flush nor another writer can take a report that is not his.
	durable [durableFDs]struct {
		mu     sync.Mutex
		fd     int
		opened bool
	}
	nextDurable atomic.Uint32

	// What the file system answered EOPNOTSUPP to is not tried again.
	noNowaitRead, noNowaitWrite, noPunchHole, noZeroRange, noDiscard, noUnmap atomic.Bool
}

// Attributes implements Backend.
func (f *File) Attributes() Attributes { return f.attr }

// Size implements Backend.
func (f *File) Size() int64 { return f.size.Load() }

// Refresh implements Backend. A size that is not whole blocks is rounded down.
func (f *File) Refresh() (int64, error) {
	size, err := f.currentSize()
	if err != nil {
		return 0, fmt.Errorf("size of %s: %w", f.path, err)
	}
	size -= size % int64(f.attr.BlockSize)
	f.size.Store(size)
	return size, nil
}

// setupRegular finds out what the file system can do. Punching a hole behind the
// end changes nothing, and tells.
func (f *File) setupRegular(st *unix.Stat_t) {
	f.attr.Rotational = rotational(uint64(st.Dev))
	if f.attr.ReadOnly {
		return
	}
	const far = 1 << 40
	if unix.Fallocate(f.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, st.Size+far, 4096) != nil {
		f.noPunchHole.Store(true)
		return
	}
	f.attr.TrimGranularity = int(st.Blksize)
	f.attr.ReadsZeroAfterTrim = true
}

func (f *File) currentSize() (int64, error) {
	if f.block {
		return f.blockDeviceSize()
	}
	var st unix.Stat_t
	err := unix.Fstat(f.fd, &st)
	return st.Size, err
}

// TryReadAt implements Backend: what is in the page cache is read.
func (f *File) TryReadAt(p []byte, off int64) error {
	if err := checkRange(OpRead, off, int64(len(p)), f.Size()); err != nil {
		return err
	}
	return f.try(unix.SYS_PREADV2, f.fd, p, off, &f.noNowaitRead)
}

// TryWriteAt implements Backend: a write that only fills the page cache is made.
func (f *File) TryWriteAt(p []byte, off int64, flags Flags) error {
	if err := checkChange(OpWrite, off, int64(len(p)), f.Size(), f.attr.ReadOnly); err != nil {
		return err
	}
	if flags&FUA != 0 {
		return ErrWouldBlock
	}
	return f.try(unix.SYS_PWRITEV2, f.fd, p, off, &f.noNowaitWrite)
}

// try makes a call with RWF_NOWAIT. Every outcome but full success is left to the
// call that may block, which finds out about errors.
func (f *File) try(trap uintptr, fd int, p []byte, off int64, unsupported *atomic.Bool) error {
	if unsupported.Load() {
		return ErrWouldBlock
	}
	n, errno := rwv2(trap, fd, p, off, unix.RWF_NOWAIT)
	switch {
	case errno == 0 && n == len(p):
		return nil
	case errno == unix.EOPNOTSUPP, errno == unix.ENOSYS, errno == unix.EINVAL:
		unsupported.Store(true)
	}
	return ErrWouldBlock
}

// rwv2 is preadv2 or pwritev2 with one vector, without the allocations of the
// general form.
func rwv2(trap uintptr, fd int, p []byte, off int64, flags int) (int, unix.Errno) {
	iov := unix.Iovec{Base: unsafe.SliceData(p)}
	iov.SetLen(len(p))
	high := uint64(off) >> (bits.UintSize / 2) >> (bits.UintSize / 2) // 0 where a register holds the offset
	n, _, errno := unix.Syscall6(trap, uintptr(fd), uintptr(unsafe.Pointer(&iov)), 1, uintptr(off), uintptr(high), uintptr(flags))
	return int(n), errno
}

// ReadAt implements Backend.
func (f *File) ReadAt(p []byte, off int64) error {
	if err := checkRange(OpRead, off, int64(len(p)), f.Size()); err != nil {
		return err
	}
	for len(p) > 0 {
		n, err := unix.Pread(f.fd, p, off)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("read %s at %d: %w", f.path, off, err)
		case n == 0:
			return fmt.Errorf("read %s at %d: the file has become shorter: %w", f.path, off, io.ErrUnexpectedEOF)
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// WriteAt implements Backend.
func (f *File) WriteAt(p []byte, off int64, flags Flags) error {
	if err := checkChange(OpWrite, off, int64(len(p)), f.Size(), f.attr.ReadOnly); err != nil {
		return err
	}
	if flags&FUA == 0 {
		return f.write(f.fd, p, off, 0)
	}
	if err := f.flushes.failed(); err != nil {
		return err
	}
	d := &f.durable[f.nextDurable.Add(1)%durableFDs]
	d.mu.Lock()
	defer d.mu.Unlock()
	err := f.write(d.fd, p, off, unix.RWF_DSYNC)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		// There was no room for this write, or earlier ones were lost for the same
		// reason: a flush finds out, as it has a report of its own.
		if lost := f.flushes.flush(); lost != nil {
			return lost
		}
		return err
	}
	return f.flushes.fail(err)
}

func (f *File) write(fd int, p []byte, off int64, flags int) error {
	for len(p) > 0 {
		n, errno := rwv2(unix.SYS_PWRITEV2, fd, p, off, flags)
		switch {
		case errno == unix.EINTR:
			continue
		case errno != 0:
			return fmt.Errorf("write %s at %d: %w", f.path, off, errno)
		case n == 0:
			return fmt.Errorf("write %s at %d: %w", f.path, off, io.ErrShortWrite)
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

// Flush implements Backend.
func (f *File) Flush() error {
	if f.attr.ReadOnly {
		return nil
	}
	return f.flushes.flush()
}

func (f *File) fdatasync() error {
	for {
		err := unix.Fdatasync(f.fd)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Close implements Backend. It does not flush.
func (f *File) Close() error {
	err := unix.Close(f.fd)
	for i := range f.durable {
		if d := &f.durable[i]; d.opened {
			err = errors.Join(err, unix.Close(d.fd))
			d.opened = false
		}
	}
	if err != nil {
		return fmt.Errorf("close %s: %w", f.path, err)
	}
	return nil
}
