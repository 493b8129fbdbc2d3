package initiator

import (
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"rbd/verbs"
	"rbd/wire"
)

// Options say how to connect. Zero fields have defaults.
type Options struct {
	// SubNQN is the subsystem to connect to. Discover does not use it.
	SubNQN string
	// Host is the identity that the target sees; zero makes a random one.
	Host Host
	// Queues is how many I/O queues are asked for, each with a connection of its
	// own; default the number of CPUs, at most 4. The target may grant fewer.
	Queues int
	// QueueSize is the entries of an I/O queue, 2..1024; default 128. A queue of n
	// entries has n-1 commands out. The target may lower it.
	QueueSize int
	// KeepAlive is the keep-alive timeout: the target gives up a host that it has
	// not heard of for so long, and the host a target. After a loss that the target
	// may not have noticed, the first try to reconnect is made after twice this time.
	// Default 5 s; negative turns keep-alive off.
	KeepAlive time.Duration
	// NoReconnect ends the controller when its connection is lost.
	NoReconnect bool
	// LossTimeout is how long requests wait for another connection when it is lost
	// (ctrl-loss-tmo of nvme-cli): then they end with an error, and so do new ones
	// until the target is back. Default 10 min; negative lets them wait for ever. They
	// wait longer if the first try comes so late, see KeepAlive, that it had less than
	// 10 s.
	LossTimeout time.Duration
	// ReconnectDelay lies between two tries to reconnect; default 10 s. The first
	// one is made at once.
	ReconnectDelay time.Duration
	// ConnectTimeout bounds the making of one RDMA connection; default 10 s.
	ConnectTimeout time.Duration
	// AdminTimeout bounds the answer to an admin command; default 60 s.
	AdminTimeout time.Duration
	// IOTimeout bounds the answer to an I/O command, from its sending on; default
	// 30 s. When it is exceeded, the connection is cut.
	IOTimeout time.Duration
	// MaxTransfer bounds the bytes of one read or write command; default 1 MiB. It
	// must be 4096 times a power of two. The target may lower it.
	MaxTransfer int
	// BufferSize is the registered memory for data in bytes; default 64 MiB.
	BufferSize int
	// OnNamespaceChange, if set, is called when a namespace came, went or changed
	// its size. It is called on one goroutine, in order, and must not call Close.
	OnNamespaceChange func(NamespaceChange)
	// Logger gets what is not an error of a call; default none.
	Logger *slog.Logger
}

const (
	adminQueueSize  = 32 // NVMe over Fabrics, Linux NVME_AQ_DEPTH
	maxQueueSize    = 1024
	maxQueues       = 128
	maxMaxTransfer  = 8 << 20 // a power of two below the 24 bits of a keyed SGL
	defaultQueues   = 4
	defaultTransfer = 1 << 20
	defaultBuffers  = 64 << 20
)

// withDefaults checks the options and fills in what is missing.
func (o Options) withDefaults() (Options, error) {
	if o.Host == (Host{}) {
		o.Host = NewHost()
	}
	if err := o.Host.check(); err != nil {
		return o, err
	}
	setDefault(&o.Queues, min(runtime.NumCPU(), defaultQueues))
	setDefault(&o.QueueSize, 128)
	setDefault(&o.KeepAlive, 5*time.Second)
	setDefault(&o.LossTimeout, 10*time.Minute)
	setDefault(&o.ReconnectDelay, 10*time.Second)
	setDefault(&o.ConnectTimeout, 10*time.Second)
	setDefault(&o.AdminTimeout, 60*time.Second)
	setDefault(&o.IOTimeout, 30*time.Second)
	setDefault(&o.MaxTransfer, defaultTransfer)
	setDefault(&o.BufferSize, max(defaultBuffers, o.MaxTransfer))
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.Queues < 1 || o.Queues > maxQueues:
		return o, optionError("queues", o.Queues, "1 to %d", maxQueues)
	case o.QueueSize < 2 || o.QueueSize > maxQueueSize:
		return o, optionError("queue size", o.QueueSize, "2 to %d", maxQueueSize)
	case o.KeepAlive > 0 && o.KeepAlive < time.Millisecond || o.KeepAlive > 24*time.Hour:
		return o, optionError("keep-alive timeout", o.KeepAlive, "1ms to 24h")
	case o.ReconnectDelay < time.Millisecond || o.ReconnectDelay > 24*time.Hour:
		return o, optionError("reconnect delay", o.ReconnectDelay, "1ms to 24h")
	case o.ConnectTimeout < 0 || o.AdminTimeout < time.Millisecond || o.IOTimeout < time.Millisecond:
		return o, fmt.Errorf("time limits must be at least 1ms: %w", verbs.ErrInvalid)
	case o.MaxTransfer < 4096 || o.MaxTransfer > maxMaxTransfer || o.MaxTransfer&(o.MaxTransfer-1) != 0:
		return o, optionError("maximum transfer", o.MaxTransfer, "a power of two from 4096 to %d", maxMaxTransfer)
	case o.BufferSize < o.MaxTransfer:
		return o, optionError("buffer size", o.BufferSize, "at least the maximum transfer of %d", o.MaxTransfer)
	}
	return o, nil
}

func setDefault[T comparable](p *T, value T) {
	var zero T
	if *p == zero {
		*p = value
	}
}

func optionError(name string, value any, want string, args ...any) error {
	return fmt.Errorf("%s %v: want %s: %w", name, value, fmt.Sprintf(want, args...), verbs.ErrInvalid)
}

// kato is the keep-alive timeout in milliseconds as Connect transmits it.
func (o *Options) kato() uint32 {
	if o.KeepAlive < 0 {
		return 0
	}
	return uint32(o.KeepAlive / time.Millisecond)
}

// checkNQN checks the name of a subsystem before anything is dialled.
func checkNQN(nqn string) error {
	if err := wire.ValidNQN(nqn); err != nil {
		return fmt.Errorf("subsystem NQN: %w", err)
	}
	return nil
}
