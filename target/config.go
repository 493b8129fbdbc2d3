package target

import (
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// The limits that follow from what the target tells hosts.
const (
	// maxTransfer is the longest transfer of one command in bytes: MDTS 8.
	maxTransfer = 1 << 20
	mdts        = 8
	// adminDepth is the size of an admin queue.
	adminDepth = 32
	// maxNSID is the largest namespace identifier, NN of Identify Controller.
	maxNSID = 1024
	// maxCNTLID is the largest controller identifier of the dynamic model.
	maxCNTLID = 0xFFEF
)

// Config are the settings of a Target. The zero value of a field means the
// default.
type Config struct {
	// Log gets connections, refusals and errors; nothing by default.
	Log *slog.Logger
	// BufferBytes is the memory for data on each RDMA device; 64 MiB. When it is
	// used up, commands wait.
	BufferBytes int
	// QueueDepth is the largest size of an I/O queue in commands, 2 to 1024; 128.
	QueueDepth int
	// InCapsuleBytes is how much data a command capsule may carry, a multiple of
	// 16; 8192.
	InCapsuleBytes int
	// IOQueues is how many I/O queues a controller may have; 16.
	IOQueues int
	// Controllers bounds the controllers of all subsystems; 256. Discovery has a quarter
	// as many of its own.
	Controllers int
	// Connections bounds the queue pairs of all kinds; 1024.
	Connections int
	// ConnectTimeout is how long a connection may be without a successful Connect;
	// 15 s.
	ConnectTimeout time.Duration
	// DrainTimeout is how long a Connect waits for what the same host's lost
	// connections still do; then it is refused and the host may try again. 45 s,
	// which is less than a Linux host waits.
	DrainTimeout time.Duration
	// TransferTimeout is how long a peer may leave all its RDMA work undone before
	// its connection is cut; 30 s.
	TransferTimeout time.Duration
	// Model and Firmware are the model number and firmware revision in Identify
	// Controller, at most 40 and 8 ASCII characters; "rbd-target" and "1.0".
	Model, Firmware string
}

// withDefaults is the configuration with all fields set.
func (c Config) withDefaults() (Config, error) {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	setDefault(&c.BufferBytes, 64<<20)
	setDefault(&c.QueueDepth, 128)
	setDefault(&c.InCapsuleBytes, 8192)
	setDefault(&c.IOQueues, 16)
	setDefault(&c.Controllers, 256)
	setDefault(&c.Connections, 1024)
	setDefault(&c.ConnectTimeout, 15*time.Second)
	setDefault(&c.DrainTimeout, 45*time.Second)
	setDefault(&c.TransferTimeout, 30*time.Second)
	setDefault(&c.Model, "rbd-target")
	setDefault(&c.Firmware, "1.0")
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("target: "+format, args...))
		}
	}
	check(c.BufferBytes >= 2*maxTransfer, "buffers of %d bytes: at least %d are needed", c.BufferBytes, 2*maxTransfer)
	check(c.QueueDepth >= 2 && c.QueueDepth <= 1024, "queue depth %d is not in 2..1024", c.QueueDepth)
	check(c.InCapsuleBytes >= 0 && c.InCapsuleBytes <= 64<<10 && c.InCapsuleBytes%16 == 0,
		"in-capsule data of %d bytes is not a multiple of 16 up to 65536", c.InCapsuleBytes)
	check(c.IOQueues >= 1 && c.IOQueues < 1024, "%d i/o queues is not in 1..1023", c.IOQueues)
	check(c.Controllers >= 1 && c.Controllers <= maxCNTLID, "%d controllers is not in 1..%d", c.Controllers, maxCNTLID)
	check(c.Connections >= 1, "%d connections", c.Connections)
	check(c.ConnectTimeout > 0 && c.DrainTimeout > 0 && c.TransferTimeout > 0, "negative time-out")
	check(len(c.Model) <= 40 && len(c.Firmware) <= 8, "model %q or firmware %q is too long", c.Model, c.Firmware)
	return c, errors.Join(errs...)
}

func setDefault[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}
