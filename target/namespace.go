package target

import (
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"

	"rbd/target/backend"
	"rbd/wire"
)

// namespace is one export: a backend with an identity.
type namespace struct {
	nsid    uint32
	uuid    wire.UUID
	backend backend.Backend
	attr    backend.Attributes
	shift   uint // log2 of the block size
	// blocks is the size, NSZE.
	blocks  atomic.Uint64
	workers *workers
	stats   ioStats
	// changes counts changes that were made, flushed is how many of them a flush has
	// made durable.
	changes, flushed atomic.Uint64

	// refs counts the commands that use the namespace, plus closedBias once no
	// more may.
	refs   atomic.Int64
	closed chan struct{} // closed when the backend is
	err    error         // of closing the backend
}

// ioStats are the counters of the SMART log.
type ioStats struct {
	reads, writes, blocksRead, blocksWritten, errors atomic.Uint64
}

const closedBias = -1 << 62

func newNamespace(nsid uint32, id wire.UUID, b backend.Backend) (*namespace, error) {
	attr := b.Attributes()
	size := b.Size()
	if attr.BlockSize < 512 || bits.OnesCount(uint(attr.BlockSize)) != 1 || size < int64(attr.BlockSize) {
		return nil, fmt.Errorf("backend of %d bytes in blocks of %d can't be a namespace", size, attr.BlockSize)
	}
	n := &namespace{nsid: nsid, uuid: id, backend: b, attr: attr, shift: uint(bits.TrailingZeros(uint(attr.BlockSize))),
		workers: newWorkers(), closed: make(chan struct{})}
	n.blocks.Store(uint64(size) >> n.shift)
	return n, nil
}

// acquire keeps the backend open for one command; false if it is being removed.
func (n *namespace) acquire() bool {
	for {
		refs := n.refs.Load()
		if refs < 0 {
			return false
		}
		if n.refs.CompareAndSwap(refs, refs+1) {
			return true
		}
	}
}

func (n *namespace) release() {
	if n.refs.Add(-1) == closedBias {
		go n.finish() // it may wait for a device
	}
}

// close lets no more commands in. When the last one is done the backend is flushed
// and closed, and then the channel closed.
func (n *namespace) close() {
	if n.refs.Add(closedBias) == closedBias {
		go n.finish()
	}
}

func (n *namespace) finish() {
	if !n.attr.ReadOnly {
		n.err = n.backend.Flush()
	}
	n.err = errors.Join(n.err, n.backend.Close())
	close(n.closed)
}

// flush makes all completed writes durable.
func (n *namespace) flush() error {
	made := n.changes.Load()
	if err := n.backend.Flush(); err != nil {
		return err
	}
	for {
		before := n.flushed.Load()
		if before >= made || n.flushed.CompareAndSwap(before, made) {
			return nil
		}
	}
}

// changed notes that a change was made, or begun and not ended.
func (n *namespace) changed() {
	if n.attr.VolatileCache {
		n.changes.Add(1)
	}
}

// dirty tells whether there are changes that no flush has made durable.
func (n *namespace) dirty() bool { return n.flushed.Load() < n.changes.Load() }

// count notes a finished read or write for the SMART log.
func (n *namespace) count(op wire.IOOpcode, blocks uint64) {
	switch op {
	case wire.IORead, wire.IOCompare:
		n.stats.reads.Add(1)
		n.stats.blocksRead.Add(blocks)
	case wire.IOWrite:
		n.stats.writes.Add(1)
		n.stats.blocksWritten.Add(blocks)
	}
}

// nsTable holds the namespaces of a subsystem by identifier. It is replaced, never
// changed, so that queues read it without a lock.
type nsTable []*namespace

func (t nsTable) get(nsid uint32) *namespace {
	if nsid >= uint32(len(t)) {
		return nil
	}
	return t[nsid]
}

// with is the table with n at nsid, or with nothing there if n is nil.
func (t nsTable) with(nsid uint32, n *namespace) nsTable {
	next := make(nsTable, max(len(t), int(nsid)+1))
	copy(next, t)
	next[nsid] = n
	return next
}

// active lists the namespaces behind nsid, in order.
func (t nsTable) active(after uint32) []*namespace {
	var list []*namespace
	for nsid := uint64(after) + 1; nsid < uint64(len(t)); nsid++ {
		if t[nsid] != nil {
			list = append(list, t[nsid])
		}
	}
	return list
}
