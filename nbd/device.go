package nbd

import (
	"context"
	"fmt"
)

// MaxRequests is how many requests one [Queue] has in hand at most.
// [Request.Index] is below it.
const MaxRequests = 256

// Op is what a [Request] asks for.
type Op uint8

// The operations. Ranges lie within the device and are aligned to
// [DeviceInfo.MinBlock]; none is empty.
const (
	OpRead        Op = iota // read Length bytes at Offset into Buf.Data
	OpWrite                 // write Buf.Data, Length bytes, at Offset
	OpFlush                 // make all completed writes durable; Offset and Length are 0
	OpTrim                  // the range is no longer needed
	OpWriteZeroes           // the range reads as zeroes afterwards
)

func (op Op) String() string {
	if int(op) < len(opNames) {
		return opNames[op]
	}
	return fmt.Sprintf("Op(%d)", uint8(op))
}

var opNames = [...]string{"read", "write", "flush", "trim", "write zeroes"}

// DeviceInfo describes a device. Sizes are in bytes.
type DeviceInfo struct {
	Size uint64

	// MinBlock is the unit of offsets and lengths, a power of two up to 64 KiB;
	// 0 means 1. PreferredBlock is a power of two of at least MinBlock and 512;
	// 0 means 4096 or MinBlock.
	MinBlock, PreferredBlock uint32

	// MaxTransfer is the most data of one read or write Request: at least
	// 64 KiB, and a multiple of MinBlock. MaxZero and MaxTrim are the same for
	// their operations; 0 means that there is no limit.
	MaxTransfer      uint32
	MaxZero, MaxTrim uint64

	ReadOnly    bool
	Flush       bool // OpFlush is supported: there is a volatile cache
	FUA         bool // Request.FUA is honoured by all that modify
	Trim        bool // OpTrim is supported
	WriteZeroes bool // OpWriteZeroes and Request.NoHole are supported
	FastZero    bool // Request.FastZero is honoured, if only by ErrNotSupported
	Rotational  bool
	MultiConn   bool // a completed write or flush holds for all queues
}

// normalize fills in the defaults and checks the rest.
func (d DeviceInfo) normalize() (DeviceInfo, error) {
	if d.MinBlock == 0 {
		d.MinBlock = 1
	}
	if d.PreferredBlock == 0 {
		d.PreferredBlock = max(d.MinBlock, 4096)
	}
	if d.MaxZero == 0 {
		d.MaxZero = 1 << 62
	}
	if d.MaxTrim == 0 {
		d.MaxTrim = 1 << 62
	}
	m := uint64(d.MinBlock)
	switch {
	case m&(m-1) != 0 || m > 64<<10:
		return d, fmt.Errorf("minimum block size %d is not a power of two up to 65536", m)
	case d.PreferredBlock&(d.PreferredBlock-1) != 0 || d.PreferredBlock < max(d.MinBlock, 512) || d.PreferredBlock > maxPayload:
		return d, fmt.Errorf("preferred block size %d is not a power of two from %d to %d", d.PreferredBlock, max(d.MinBlock, 512), maxPayload)
	case d.MaxTransfer < dfMinimum || uint64(d.MaxTransfer)%m != 0:
		return d, fmt.Errorf("maximum transfer %d is below 65536 or no multiple of the block size %d", d.MaxTransfer, m)
	case d.MaxZero%m != 0 || d.MaxTrim%m != 0:
		return d, fmt.Errorf("limits for zeroing (%d) and trimming (%d) are no multiples of the block size %d", d.MaxZero, d.MaxTrim, m)
	}
	d.Size -= d.Size % m // what no request can reach
	d.MaxTransfer = min(d.MaxTransfer, maxPayload)
	return d, nil
}

// Device is what an export serves.
type Device interface {
	// Info is asked for anew by each connection; what it says holds until that
	// connection ends.
	Info() DeviceInfo
	// OpenQueue makes a path to the device for one connection.
	OpenQueue(o Owner) (Queue, error)
}

// Owner takes the completed requests of a [Queue].
type Owner interface {
	// Complete hands back requests with [Request.Err] set. It does not wait for
	// anything. It may be called from inside Submit, and on several goroutines at
	// once, with no lock held that Free needs. It does not keep the slice.
	Complete(batch []*Request)
}

// Queue is the way of one connection to its device. Its methods may be called
// from several goroutines, save that Alloc, TryAlloc and Submit are called by
// one, and Close at the end.
type Queue interface {
	// Alloc gets n bytes of memory that the device can transfer, n at most
	// [DeviceInfo.MaxTransfer], and waits for them, at most until ctx is done.
	// The caller has nothing unsubmitted in hand, save for memory of a single
	// request: what it waits for comes free by itself.
	Alloc(ctx context.Context, n int, buf *Buffer) error
	// TryAlloc is Alloc that answers false instead of waiting.
	TryAlloc(n int, buf *Buffer) bool
	// Free gives memory back. It must not wait, nor call the Owner.
	Free(buf *Buffer)
	// Submit starts requests and does not wait for them. It does not keep the
	// slice. The requests belong to the device until it completes them.
	Submit(reqs []*Request)
	// Close ends the use of the queue and returns when nothing of it is
	// outstanding.
	Close() error
}

// Buffer is memory of a [Queue].
type Buffer struct {
	Data   []byte
	Handle [2]uint64 // the device's own: keys, addresses, indexes
}

// Request is one operation on a device.
type Request struct {
	Op       Op
	FUA      bool // durable before completion
	NoHole   bool // OpWriteZeroes: keep the range allocated
	FastZero bool // OpWriteZeroes: ErrNotSupported unless it is faster than writing
	Offset   uint64
	Length   uint64
	Buf      Buffer // OpRead and OpWrite; len(Buf.Data) == Length
	Err      error  // set by the device before it completes the request

	// Index tells the outstanding requests of one queue apart, from 0 to
	// MaxRequests-1, for the device's own table.
	Index int
}

// Extent is a part of a device with one allocation status.
type Extent struct {
	Length uint64
	Hole   bool // not allocated (NBD_STATE_HOLE)
	Zero   bool // reads as zeroes (NBD_STATE_ZERO)
}

// BlockStatuser is a [Device] that knows which parts are allocated. For others
// the context base:allocation reports all as allocated.
type BlockStatuser interface {
	// BlockStatus fills extents with consecutive parts from offset on, and
	// answers how many: at least one, and no empty ones. They may cover less
	// than length, and more. It may wait, at most until ctx is done; nothing
	// else of the connection is read meanwhile.
	BlockStatus(ctx context.Context, offset, length uint64, extents []Extent) (int, error)
}

// Export is a device under a name.
type Export struct {
	Name        string // up to 4096 bytes of UTF-8 without NUL
	Description string // for humans; may be empty
	Device      Device
}
