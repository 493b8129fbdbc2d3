package backend

import (
	"errors"
	"fmt"
)

// Errors that callers decide by.
var (
	// ErrWouldBlock is the answer of the Try methods when the work has to wait.
	ErrWouldBlock = errors.New("would block")
	// ErrOutOfRange: the range is not within the backend's size.
	ErrOutOfRange = errors.New("out of range")
	// ErrReadOnly: a change was asked of a backend that was opened read-only.
	ErrReadOnly = errors.New("read-only")
)

// Flags modify a write.
type Flags uint8

const (
	// FUA asks for the data to be on stable storage when the call returns.
	FUA Flags = 1 << iota
	// Deallocate lets WriteZeroes give the storage of the range back. Without it
	// the range stays allocated where the backend can tell the difference.
	Deallocate
)

// Op names a kind of request, for the wrappers.
type Op uint8

// The kinds of requests.
const (
	OpRead Op = iota
	OpWrite
	OpFlush
	OpTrim
	OpWriteZeroes
)

func (o Op) String() string {
	names := [...]string{"read", "write", "flush", "trim", "write zeroes"}
	if int(o) < len(names) {
		return names[o]
	}
	return fmt.Sprintf("Op(%d)", uint8(o))
}

// Attributes are the properties of a backend that do not change while it is
// open.
type Attributes struct {
	// BlockSize is the logical block in bytes: 512 or 4096.
	BlockSize int
	ReadOnly  bool
	// Rotational: the data is on a spinning disk.
	Rotational bool
	// VolatileCache: completed writes may be lost until a Flush.
	VolatileCache bool
	// TrimGranularity is the unit in bytes in which Trim frees storage; 0 if it
	// frees none.
	TrimGranularity int
	// ReadsZeroAfterTrim: a trimmed range reads as zeros.
	ReadsZeroAfterTrim bool
	// NonBlocking: no call ever waits for a device, a timer or another caller's
	// device, though one with a large range may take its time.
	NonBlocking bool
}

// Backend stores the blocks of a namespace. See the package comment for the
// rules that all methods share.
type Backend interface {
	Attributes() Attributes
	// Size in bytes, a multiple of the block size. It changes by Refresh alone.
	Size() int64
	// Refresh looks at the size of the file or device again and returns it.
	Refresh() (int64, error)
	// TryReadAt fills p from off without waiting, or answers ErrWouldBlock.
	TryReadAt(p []byte, off int64) error
	// TryWriteAt writes p at off without waiting, or answers ErrWouldBlock; then
	// the range holds old data, new data or a mixture, as during any write.
	TryWriteAt(p []byte, off int64, flags Flags) error
	ReadAt(p []byte, off int64) error
	WriteAt(p []byte, off int64, flags Flags) error
	// Flush makes all writes that were complete when it began durable.
	Flush() error
	// Trim says that the content of the range is not needed any more. It is
	// advice: where nothing can be freed it does nothing and returns nil.
	Trim(off, n int64) error
	// WriteZeroes makes the range read as zeros.
	WriteZeroes(off, n int64, flags Flags) error
	Close() error
}

// checkRange refuses a range that is not within size bytes.
func checkRange(op Op, off, n, size int64) error {
	if off < 0 || n < 0 || off > size || n > size-off {
		return fmt.Errorf("%s %d bytes at %d of %d: %w", op, n, off, size, ErrOutOfRange)
	}
	return nil
}

// checkChange is checkRange for requests that change data.
func checkChange(op Op, off, n, size int64, readOnly bool) error {
	if readOnly {
		return fmt.Errorf("%s: %w", op, ErrReadOnly)
	}
	return checkRange(op, off, n, size)
}

// checkGeometry refuses block sizes that can't be exported, and sizes that are
// not whole blocks; what names the backend in the error.
func checkGeometry(what string, size int64, blockSize int) error {
	if blockSize != 512 && blockSize != 4096 {
		return fmt.Errorf("%s: block size %d is neither 512 nor 4096", what, blockSize)
	}
	bs := int64(blockSize)
	switch {
	case size < 0:
		return fmt.Errorf("%s: size %d is negative", what, size)
	case size == 0:
		return fmt.Errorf("%s: it is empty, an export needs at least one block of %d bytes", what, blockSize)
	case size < bs:
		return fmt.Errorf("%s: size %d is not a multiple of the block size %d; the nearest valid size is %d", what, size, bs, bs)
	case size%bs != 0:
		near := size / bs * bs
		if size-near > bs/2 && near <= maxInt64-bs {
			near += bs
		}
		return fmt.Errorf("%s: size %d is not a multiple of the block size %d; the nearest valid size is %d", what, size, bs, near)
	}
	return nil
}

const maxInt64 = 1<<63 - 1
