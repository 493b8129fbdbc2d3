package bench

import (
	"fmt"
	"time"

	"rbd/initiator"
	"rbd/verbs"
)

// Mode is the order and kind of requests, as fio's --rw names them.
type Mode uint8

// The modes.
const (
	Read Mode = iota
	Write
	RandRead
	RandWrite
	// RandRW is half reads and half writes, at random.
	RandRW
)

var modeNames = [...]string{"read", "write", "randread", "randwrite", "randrw"}

func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// ParseMode is the mode with a name.
func ParseMode(s string) (Mode, error) {
	for i, name := range modeNames {
		if s == name {
			return Mode(i), nil
		}
	}
	return 0, fmt.Errorf("mode %q: want one of %v", s, modeNames)
}

func (m Mode) random() bool { return m >= RandRead }

// Writes says that the mode overwrites what is on the disk.
func (m Mode) Writes() bool { return m == Write || m == RandWrite || m == RandRW }

// Config says what to measure.
type Config struct {
	Mode Mode
	// BlockSize is the length of a request in bytes: a multiple of the namespace's
	// block size, at most the largest transfer of the controller.
	BlockSize int
	// Depth is how many requests are out at once, on all queues together.
	Depth   int
	Runtime time.Duration
	// Verify writes data that tells where and when it was written, and compares it
	// when it is read, in the end everywhere. The mode must write.
	Verify bool
	// Seed makes the random order and the data; the same seed makes the same.
	Seed uint64
	// Size is the part of the namespace that is used, from its beginning on; 0 for all.
	Size uint64
}

// maxVerifyBlocks bounds the memory that remembers what was written, 4 bytes for
// each block.
const maxVerifyBlocks = 64 << 20

// blocks is how many blocks of BlockSize are used.
func (c *Config) blocks(ns *initiator.Namespace, maxTransfer int) (uint64, error) {
	size := ns.Size()
	if c.Size != 0 {
		size = c.Size
	}
	switch {
	case c.BlockSize <= 0 || c.BlockSize%int(ns.BlockSize()) != 0 || c.BlockSize > maxTransfer:
		return 0, fmt.Errorf("block size %d: want a multiple of %d, at most %d: %w", c.BlockSize, ns.BlockSize(), maxTransfer, verbs.ErrInvalid)
	case c.Depth <= 0:
		return 0, fmt.Errorf("depth %d: %w", c.Depth, verbs.ErrInvalid)
	case c.Runtime <= 0:
		return 0, fmt.Errorf("runtime %v: %w", c.Runtime, verbs.ErrInvalid)
	case c.Size > ns.Size():
		return 0, fmt.Errorf("size %d: the namespace has %d bytes: %w", c.Size, ns.Size(), verbs.ErrInvalid)
	case c.Verify && !c.Mode.Writes():
		return 0, fmt.Errorf("mode %s writes nothing that could be verified: %w", c.Mode, verbs.ErrInvalid)
	}
	n := size / uint64(c.BlockSize)
	switch {
	case n/2 < uint64(c.Depth): // so that every worker finds blocks that are not out
		return 0, fmt.Errorf("%d blocks of %d bytes are too few for a depth of %d: %w", n, c.BlockSize, c.Depth, verbs.ErrInvalid)
	case c.Verify && n > maxVerifyBlocks:
		return 0, fmt.Errorf("verify: %d blocks, at most %d can be remembered: use larger blocks or a smaller size: %w", n, maxVerifyBlocks, verbs.ErrInvalid)
	}
	return n, nil
}
