package target

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"rbd/wire"
)

// subsystem is what an NQN names: namespaces, and a controller for each host
// association.
type subsystem struct {
	nqn       string
	discovery bool
	serial    string
	t         *Target
	order     *hostOrder
	// live counts controllers, with those of other subsystems, up to most.
	live *limit
	most int
	// table is the namespaces; it is replaced under mu.
	table atomic.Pointer[nsTable]

	mu          sync.Mutex
	controllers map[uint16]*controller
	lastCNTLID  uint16
	// unsafeShutdowns counts controllers that were lost without a shutdown.
	unsafeShutdowns uint64
}

func newSubsystem(t *Target, nqn string) *subsystem {
	s := &subsystem{nqn: nqn, discovery: nqn == wire.DiscoveryNQN, serial: serialNumber(nqn), t: t,
		order: newHostOrder(), controllers: make(map[uint16]*controller), live: &t.controllers, most: t.cfg.Controllers}
	if s.discovery { // hosts that may use nothing must not take the controllers of those that may
		s.live, s.most = &limit{}, max(1, t.cfg.Controllers/4)
	}
	s.table.Store(&nsTable{})
	return s
}

func (s *subsystem) namespaces() nsTable { return *s.table.Load() }

// swap replaces old at nsid by next, either of which may be nil; false if old is
// not there.
func (s *subsystem) swap(nsid uint32, old, next *namespace) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	table := s.namespaces()
	if table.get(nsid) != old {
		return false
	}
	table = table.with(nsid, next)
	s.table.Store(&table)
	return true
}

// freeNSID is the smallest identifier that is not used.
func (s *subsystem) freeNSID() (uint32, error) {
	table := s.namespaces()
	for nsid := uint32(1); nsid <= maxNSID; nsid++ {
		if table.get(nsid) == nil {
			return nsid, nil
		}
	}
	return 0, fmt.Errorf("subsystem %s has all %d namespaces that it can have", s.nqn, maxNSID)
}

// all lists the controllers.
func (s *subsystem) all() []*controller {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*controller, 0, len(s.controllers))
	for _, c := range s.controllers {
		list = append(list, c)
	}
	return list
}

// namespaceChanged sends the event that a namespace came, went or changed.
func (s *subsystem) namespaceChanged(nsid uint32) {
	for _, c := range s.all() {
		c.namespaceChanged(nsid)
	}
}

// discoveryChanged sends the event that the discovery log page changed.
func (s *subsystem) discoveryChanged() {
	for _, c := range s.all() {
		c.raise(eventDiscovery)
	}
}

var errNoController = errors.New("there are as many controllers as there may be")

// newController makes a controller for a host and binds its admin queue. live says
// that the host has another controller here.
func (s *subsystem) newController(h hostKey, at *endpoint, admin *binding) (c *controller, live bool, err error) {
	if !s.live.take(s.most) {
		return nil, false, errNoController
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.controllers {
		live = live || other.host == h
	}
	for range maxCNTLID {
		s.lastCNTLID = s.lastCNTLID%maxCNTLID + 1
		if s.controllers[s.lastCNTLID] == nil {
			c = newController(s, s.lastCNTLID, h, at, admin)
			s.controllers[c.cntlid] = c
			return c, live, nil
		}
	}
	s.live.release()
	return nil, false, errNoController
}

// find is the controller with that identifier of that host, or nil.
func (s *subsystem) find(cntlid uint16, h hostKey) *controller {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.controllers[cntlid]; c != nil && c.host == h {
		return c
	}
	return nil
}

// limit counts things that are bounded.
type limit struct{ n atomic.Int64 }

func (l *limit) take(most int) bool {
	if l.n.Add(1) > int64(most) {
		l.n.Add(-1)
		return false
	}
	return true
}

func (l *limit) release() { l.n.Add(-1) }
