package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"rbd/target/backend"
	"rbd/verbs"
	"rbd/wire"
)

// Errors that callers decide by.
var (
	// ErrExists: the namespace identifier or the UUID is taken.
	ErrExists = errors.New("exists already")
	// ErrNotFound: there is no such namespace.
	ErrNotFound = errors.New("not found")
	// ErrShutdown: the target is being shut down.
	ErrShutdown = errors.New("target is shut down")
)

// Target exports namespaces. Its methods are safe for concurrent use.
type Target struct {
	cfg     Config
	log     *slog.Logger
	started time.Time
	// ioErrors and refusals bound what is logged of each.
	ioErrors, refusals logLimiter

	controllers limit // of all subsystems but discovery

	mu         sync.Mutex
	subsystems map[string]*subsystem
	devices    map[verbs.Device]*deviceResources
	conns      map[*conn]struct{}
	generation uint64 // of the discovery log page
	ports      uint16 // given out so far
	stopping   bool
	stop       chan struct{} // closed when stopping
	work       sync.WaitGroup
}

// New makes a target without namespaces.
func New(cfg Config) (*Target, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	t := &Target{cfg: cfg, log: cfg.Log, started: time.Now(), subsystems: make(map[string]*subsystem),
		devices: make(map[verbs.Device]*deviceResources), conns: make(map[*conn]struct{}), stop: make(chan struct{})}
	t.subsystems[wire.DiscoveryNQN] = newSubsystem(t, wire.DiscoveryNQN)
	return t, nil
}

// Export says what a namespace is.
type Export struct {
	// NQN names the subsystem. It is made if it is not there.
	NQN string
	// NSID is the namespace identifier, 1 to 1024; 0 takes the first that is free.
	NSID uint32
	// UUID is the namespace's identity; zero makes one of NQN and NSID, which is
	// the same each time.
	UUID wire.UUID
	// Backend holds the blocks. The target closes it when the namespace is gone.
	Backend backend.Backend
}

// ExportInfo tells of a namespace.
type ExportInfo struct {
	NQN       string
	NSID      uint32
	UUID      wire.UUID
	Size      int64 // bytes
	BlockSize int   // bytes
	ReadOnly  bool
}

// AddNamespace exports a backend. On an error the backend stays the caller's.
func (t *Target) AddNamespace(e Export) (ExportInfo, error) {
	fail := func(err error) (ExportInfo, error) {
		return ExportInfo{}, fmt.Errorf("export %s: %w", e.NQN, err)
	}
	if err := wire.ValidNQN(e.NQN); err != nil {
		return fail(err)
	}
	if e.NQN == wire.DiscoveryNQN {
		return fail(errors.New("the name is that of the discovery subsystem"))
	}
	if e.NSID > maxNSID {
		return fail(fmt.Errorf("namespace identifier %d is not in 1..%d", e.NSID, maxNSID))
	}
	s, n, err := t.insert(&e)
	if err != nil {
		return fail(err)
	}
	s.namespaceChanged(n.nsid)
	t.subsystem(wire.DiscoveryNQN).discoveryChanged()
	return n.info(s), nil
}

// insert puts a namespace into its subsystem.
func (t *Target) insert(e *Export) (*subsystem, *namespace, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopping {
		return nil, nil, ErrShutdown
	}
	s := t.subsystems[e.NQN]
	if s == nil {
		s = newSubsystem(t, e.NQN)
	}
	nsid := e.NSID
	if nsid == 0 {
		var err error
		if nsid, err = s.freeNSID(); err != nil {
			return nil, nil, err
		}
	}
	id := e.UUID
	if id.IsZero() {
		id = namespaceUUID(e.NQN, nsid)
	}
	for _, other := range t.subsystems {
		for _, n := range other.namespaces().active(0) {
			if n.uuid == id {
				return nil, nil, fmt.Errorf("uuid %s of namespace %d of %s: %w", id, n.nsid, other.nqn, ErrExists)
			}
		}
	}
	n, err := newNamespace(nsid, id, e.Backend)
	if err != nil {
		return nil, nil, err
	}
	if !s.swap(nsid, nil, n) {
		return nil, nil, fmt.Errorf("namespace %d: %w", nsid, ErrExists)
	}
	t.subsystems[e.NQN] = s
	t.generation++
	return s, n, nil
}

// RemoveNamespace ends an export: commands that have begun are finished, later ones
// are answered with an error, and the backend is flushed and closed. It waits for
// that until ctx ends; the work goes on then.
func (t *Target) RemoveNamespace(ctx context.Context, nqn string, nsid uint32) error {
	s, n, err := t.find(nqn, nsid)
	if err != nil {
		return fmt.Errorf("remove namespace: %w", err)
	}
	if !s.swap(nsid, n, nil) {
		return fmt.Errorf("remove namespace %d of %s: %w", nsid, nqn, ErrNotFound)
	}
	s.namespaceChanged(nsid)
	n.close()
	select {
	case <-n.closed:
		return n.err
	case <-ctx.Done():
		return fmt.Errorf("remove namespace %d of %s: %w", nsid, nqn, ctx.Err())
	}
}

// Resize looks at the size of a namespace's backend again, tells the hosts if it
// has changed, and returns it in bytes.
func (t *Target) Resize(nqn string, nsid uint32) (int64, error) {
	s, n, err := t.find(nqn, nsid)
	if err != nil {
		return 0, fmt.Errorf("resize: %w", err)
	}
	if !n.acquire() {
		return 0, fmt.Errorf("resize: %w", ErrNotFound)
	}
	defer n.release()
	size, err := n.backend.Refresh()
	if err != nil {
		return 0, fmt.Errorf("resize namespace %d of %s: %w", nsid, nqn, err)
	}
	blocks := uint64(size) >> n.shift
	if n.blocks.Swap(blocks) != blocks {
		s.namespaceChanged(nsid)
	}
	return size, nil
}

func (t *Target) find(nqn string, nsid uint32) (*subsystem, *namespace, error) {
	s := t.subsystem(nqn)
	if s == nil {
		return nil, nil, fmt.Errorf("subsystem %s: %w", nqn, ErrNotFound)
	}
	n := s.namespaces().get(nsid)
	if n == nil {
		return nil, nil, fmt.Errorf("namespace %d of %s: %w", nsid, nqn, ErrNotFound)
	}
	return s, n, nil
}

// Exports lists the namespaces, by NQN and identifier.
func (t *Target) Exports() []ExportInfo {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []ExportInfo
	for _, s := range t.subsystems {
		for _, n := range s.namespaces().active(0) {
			list = append(list, n.info(s))
		}
	}
	slices.SortFunc(list, func(a, b ExportInfo) int {
		return cmp.Or(cmp.Compare(a.NQN, b.NQN), cmp.Compare(a.NSID, b.NSID))
	})
	return list
}

func (n *namespace) info(s *subsystem) ExportInfo {
	return ExportInfo{NQN: s.nqn, NSID: n.nsid, UUID: n.uuid, Size: int64(n.blocks.Load() << n.shift),
		BlockSize: n.attr.BlockSize, ReadOnly: n.attr.ReadOnly}
}

// subsystem is the one of that name, or nil.
func (t *Target) subsystem(nqn string) *subsystem {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.subsystems[nqn]
}

// spawn runs f on a goroutine for which Shutdown waits. A connection must be there.
func (t *Target) spawn(f func()) { t.work.Go(f) }
