package backend

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// zeroChunk is how many zeros are written at once where a range can't be zeroed
// otherwise.
const zeroChunk = 256 << 10

var zeros = sync.OnceValue(func() []byte { return make([]byte, zeroChunk) })

// Trim implements Backend.
func (f *File) Trim(off, n int64) error {
	if err := checkChange(OpTrim, off, n, f.Size(), f.attr.ReadOnly); err != nil {
		return err
	}
	if n == 0 {
		return nil
	}
	attempt := f.punchHole
	if f.block {
		attempt = f.discard
	}
	if done, err := attempt(off, n); err != nil || done {
		return f.wrap(OpTrim, off, n, err)
	}
	return nil // there is nothing to free
}

// WriteZeroes implements Backend.
func (f *File) WriteZeroes(off, n int64, flags Flags) error {
	if err := checkChange(OpWriteZeroes, off, n, f.Size(), f.attr.ReadOnly); err != nil {
		return err
	}
	if n == 0 {
		return nil
	}
	done, err := f.zeroByCall(off, n, flags&Deallocate != 0)
	if err == nil && !done {
		err = f.zeroByWriting(off, n)
	}
	if err != nil {
		return f.wrap(OpWriteZeroes, off, n, err)
	}
	if flags&FUA != 0 {
		return f.Flush()
	}
	return nil
}

func (f *File) wrap(op Op, off, n int64, err error) error {
	if err != nil {
		err = fmt.Errorf("%s of %d bytes of %s at %d: %w", op, n, f.path, off, err)
	}
	return err
}

// zeroByCall tells whether a system call did it.
func (f *File) zeroByCall(off, n int64, free bool) (done bool, err error) {
	switch {
	case f.block && free:
		if done, err = f.unmap(off, n); done || err != nil {
			return done, err
		}
		return f.zeroOut(off, n)
	case f.block:
		return f.zeroOut(off, n)
	case free:
		if done, err = f.punchHole(off, n); done || err != nil {
			return done, err
		}
	}
	return f.attempt(&f.noZeroRange, func() error {
		return unix.Fallocate(f.fd, unix.FALLOC_FL_ZERO_RANGE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	})
}

func (f *File) punchHole(off, n int64) (bool, error) {
	return f.attempt(&f.noPunchHole, func() error {
		return unix.Fallocate(f.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	})
}

// attempt calls until it is not interrupted. It remembers that the file or device
// can't do it, and says so with done false.
func (f *File) attempt(unsupported *atomic.Bool, call func() error) (done bool, err error) {
	if unsupported.Load() {
		return false, nil
	}
	for {
		err := call()
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.ENOTTY):
			unsupported.Store(true)
			return false, nil
		}
		return err == nil, err
	}
}

func (f *File) zeroByWriting(off, n int64) error {
	for n > 0 {
		part := min(n, zeroChunk)
		if err := f.write(f.fd, zeros()[:part], off, 0); err != nil {
			return err
		}
		off, n = off+part, n-part
	}
	return nil
}
