package initiator

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"

	"rbd/verbs"
	"rbd/wire"
)

// maxZeroesBytes bounds one Write Zeroes command, so that it ends in time also
// where the target has to write the zeros.
const maxZeroesBytes = 32 << 20

// NamespaceInfo is what the controller told about a namespace.
type NamespaceInfo struct {
	NSID uint32
	// Size is in bytes, a multiple of BlockSize.
	Size      uint64
	BlockSize uint32
	// UUID, NGUID and EUI64 identify the namespace everywhere; zero if not given.
	UUID, NGUID wire.UUID
	EUI64       [8]byte
	ReadOnly    bool
	// VolatileWriteCache: writes are durable only after a flush, or with FUA.
	VolatileWriteCache bool
	// CanTrim and CanWriteZeroes: the controller has the command.
	CanTrim, CanWriteZeroes bool
	// TrimmedReadZeroes: trimmed blocks read as zeros.
	TrimmedReadZeroes bool
	// OptimalIO is the preferred size of a write in bytes, BlockSize if not given.
	OptimalIO uint64
	// MaxTransfer is the largest read or write that goes in one command, in bytes.
	MaxTransfer uint64

	serial                          string // of the subsystem, for a namespace without identifiers
	shift                           uint8  // log2 of BlockSize
	deallocateZeroes                bool
	maxTransfer, maxTrim, maxZeroes uint64
}

// check says whether a request can be sent.
func (n *NamespaceInfo) check(r *Request) error {
	switch r.Op {
	case OpFlush:
		return nil
	case OpRead, OpWrite, OpTrim, OpWriteZeroes:
	default:
		return fmt.Errorf("%s: %w", r.Op, verbs.ErrInvalid)
	}
	mask := uint64(n.BlockSize) - 1
	switch {
	case n.ReadOnly && r.Op.modifies():
		return fmt.Errorf("%s namespace %d: %w", r.Op, n.NSID, ErrReadOnly)
	case r.Op == OpTrim && !n.CanTrim, r.Op == OpWriteZeroes && !n.CanWriteZeroes:
		return fmt.Errorf("%s namespace %d: %w", r.Op, n.NSID, ErrNotSupported)
	case r.Length == 0 || (r.Offset|r.Length)&mask != 0:
		return n.rangeError(r, ErrUnaligned)
	case r.Offset > n.Size || r.Length > n.Size-r.Offset:
		return n.rangeError(r, ErrOutOfRange)
	case (r.Op == OpRead || r.Op == OpWrite) && uint64(len(r.Buf.Data)) < r.Length:
		return fmt.Errorf("%s %d bytes with a buffer of %d: %w", r.Op, r.Length, len(r.Buf.Data), verbs.ErrInvalid)
	}
	return nil
}

func (n *NamespaceInfo) rangeError(r *Request, err error) error {
	return &RangeError{
		Op: r.Op, NSID: n.NSID, Offset: r.Offset, Length: r.Length,
		Size: n.Size, BlockSize: n.BlockSize, Err: err,
	}
}

// describe puts together what Identify said of a namespace. An error says why it
// can't be used.
func describe(nsid uint32, c *controllerInfo, n *wire.IdentifyNamespace, d *wire.NSDescriptors) (*NamespaceInfo, error) {
	format, block := n.Format(), n.BlockSize()
	switch {
	case block == 0 || uint64(block) > c.maxTransfer:
		return nil, fmt.Errorf("namespace %d: block size of 2^%d bytes is not supported", nsid, format.LBADS)
	case format.MS != 0:
		return nil, fmt.Errorf("namespace %d: blocks with %d bytes of metadata are not supported", nsid, format.MS)
	case d.HasCSI && d.CSI != wire.CSINVM:
		return nil, fmt.Errorf("namespace %d: I/O command set %d is not supported", nsid, d.CSI)
	case n.NSZE > math.MaxInt64>>format.LBADS:
		return nil, fmt.Errorf("namespace %d: size of %d blocks of %d bytes is not supported", nsid, n.NSZE, block)
	}
	info := &NamespaceInfo{
		NSID: nsid, Size: n.NSZE << format.LBADS, BlockSize: block, shift: format.LBADS,
		UUID:               d.UUID,
		NGUID:              cmp.Or(d.NGUID, n.NGUID),
		EUI64:              cmp.Or(d.EUI64, n.EUI64),
		ReadOnly:           n.NSATTR&wire.NSATTRWriteProtected != 0,
		VolatileWriteCache: c.id.VWC&wire.VWCPresent != 0,
		CanTrim:            c.id.ONCS&wire.ONCSDSM != 0,
		CanWriteZeroes:     c.id.ONCS&wire.ONCSWriteZeroes != 0 && c.maxZeroes >= uint64(block),
		TrimmedReadZeroes:  n.DLFEAT&7 == wire.DLFEATZeros,
		OptimalIO:          uint64(block),
		deallocateZeroes:   n.DLFEAT&wire.DLFEATWriteZeroesDEAC != 0,
		maxTransfer:        min(c.maxTransfer, wire.MaxBlocks<<format.LBADS),
		maxTrim:            c.maxTrimBlocks << format.LBADS,
		maxZeroes:          min(c.maxZeroes, wire.MaxBlocks<<format.LBADS),
	}
	info.MaxTransfer = info.maxTransfer
	if info.UUID.IsZero() && info.NGUID.IsZero() && info.EUI64 == [8]byte{} {
		info.serial = wire.Text(c.id.SN[:])
	}
	if n.NSFEAT&wire.NSFEATOptPerf != 0 {
		info.OptimalIO = (uint64(n.NPWG) + 1) << format.LBADS
	}
	return info, nil
}

// Namespace is a disk of a controller. See the methods of disk.go for its I/O.
type Namespace struct {
	ctrl *Controller
	nsid uint32
	info atomic.Pointer[NamespaceInfo]
}

// NSID is the namespace identifier.
func (n *Namespace) NSID() uint32 { return n.nsid }

// Info is what is known of the namespace now; its size may change.
func (n *Namespace) Info() NamespaceInfo { return *n.info.Load() }

// Size is in bytes, as of now.
func (n *Namespace) Size() uint64 { return n.info.Load().Size }

// BlockSize is in bytes. Ranges must be multiples of it.
func (n *Namespace) BlockSize() uint32 { return n.info.Load().BlockSize }

// namespaceTable finds namespaces by identifier, without locks. Each change makes
// a new map; only the goroutine that scans changes it.
type namespaceTable struct {
	m atomic.Pointer[map[uint32]*Namespace]
}

func (t *namespaceTable) get(nsid uint32) *Namespace {
	m := t.m.Load()
	if m == nil {
		return nil
	}
	return (*m)[nsid]
}

// sorted are all namespaces by identifier.
func (t *namespaceTable) sorted() []*Namespace {
	m := t.m.Load()
	if m == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(*m), func(a, b *Namespace) int { return cmp.Compare(a.nsid, b.nsid) })
}
