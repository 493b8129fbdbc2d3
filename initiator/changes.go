package initiator

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// NamespaceChange is what happened to a namespace.
type NamespaceChange struct {
	Kind      ChangeKind
	Namespace *Namespace
}

// ChangeKind is the kind of a NamespaceChange.
type ChangeKind uint8

// The kinds of changes.
const (
	// NamespaceAdded: it can be used now.
	NamespaceAdded ChangeKind = iota
	// NamespaceRemoved: requests for it end with ErrNoNamespace.
	NamespaceRemoved
	// NamespaceChanged: its size, or something else of its Info, is another.
	NamespaceChanged
)

func (k ChangeKind) String() string {
	switch k {
	case NamespaceAdded:
		return "added"
	case NamespaceRemoved:
		return "removed"
	case NamespaceChanged:
		return "changed"
	}
	return fmt.Sprintf("ChangeKind(%d)", uint8(k))
}

// adopt takes what a survey found as the namespaces that there are, and tells what
// is not as it was. fresh says that the association is new. One goroutine at a time
// may do so.
//
// As long as there is the controller, an nsid stands for one disk: requests name
// the disk by it. Another disk under the same nsid is not used, so that nothing
// goes to the wrong one.
func (c *Controller) adopt(found []*NamespaceInfo, fresh bool) {
	var old map[uint32]*Namespace
	if m := c.namespaces.m.Load(); m != nil {
		old = *m
	}
	gone := maps.Clone(old)
	table := make(map[uint32]*Namespace, len(found))
	var changes []NamespaceChange
	for _, info := range found {
		n := c.known[info.NSID]
		if n == nil {
			if len(c.known) == maxNamespaces {
				c.opts.Logger.Warn("namespace left out: there were too many others", "nqn", c.opts.SubNQN, "nsid", info.NSID)
				continue
			}
			n = &Namespace{ctrl: c, nsid: info.NSID}
			c.known[info.NSID] = n
		}
		before := n.info.Load()
		active := old[info.NSID] != nil
		if err := n.compare(before, info, fresh || !active); err != nil {
			c.opts.Logger.Error("namespace not used, to spare the data of another disk; connect again if it is right", "nqn", c.opts.SubNQN, "nsid", info.NSID, "err", err)
			continue
		}
		n.info.Store(info)
		table[info.NSID] = n
		delete(gone, info.NSID)
		switch {
		case !active:
			changes = append(changes, NamespaceChange{NamespaceAdded, n})
		case *before != *info:
			changes = append(changes, NamespaceChange{NamespaceChanged, n})
		}
	}
	c.namespaces.m.Store(&table)
	for _, nsid := range slices.Backward(slices.Sorted(maps.Keys(gone))) {
		changes = slices.Insert(changes, 0, NamespaceChange{NamespaceRemoved, gone[nsid]})
	}
	if old != nil { // not the first time
		c.changes.add(changes)
	}
}

// compare says why info, which the target gives for the namespace now, is not that
// of the disk that the namespace is. away says that the disk was out of sight: if it
// has become smaller meanwhile, it may not be the same.
func (n *Namespace) compare(before, info *NamespaceInfo, away bool) error {
	switch {
	case before == nil:
		return nil
	case before.UUID != info.UUID:
		return fmt.Errorf("its UUID is %s, and was %s", info.UUID, before.UUID)
	case before.NGUID != info.NGUID:
		return fmt.Errorf("its NGUID is %s, and was %s", info.NGUID, before.NGUID)
	case before.EUI64 != info.EUI64:
		return fmt.Errorf("its EUI64 is %x, and was %x", info.EUI64, before.EUI64)
	case before.serial != info.serial:
		return fmt.Errorf("it has no identifier, and the serial number of its subsystem is %q, and was %q", info.serial, before.serial)
	case before.BlockSize != info.BlockSize:
		return fmt.Errorf("its blocks have %d bytes, and had %d", info.BlockSize, before.BlockSize)
	case away && info.Size < before.Size:
		return fmt.Errorf("it has %d bytes, and had %d", info.Size, before.Size)
	}
	return nil
}

// changeLog holds changes of namespaces until they are told.
type changeLog struct {
	wake chan struct{}

	mu   sync.Mutex
	list []NamespaceChange
}

// add puts changes at the end. Of several changes of one namespace in a row the
// last one is enough.
func (l *changeLog) add(changes []NamespaceChange) {
	l.mu.Lock()
	for _, ch := range changes {
		if i := len(l.list) - 1; i < 0 || l.list[i] != ch {
			l.list = append(l.list, ch)
		}
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *changeLog) take() []NamespaceChange {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.list
	l.list = nil
	return list
}

// tellChanges tells changes of namespaces until the controller ends, on a
// goroutine of its own: whoever is told may do I/O, which may have to wait for
// another connection.
func (c *Controller) tellChanges() {
	for {
		select {
		case <-c.life.Done():
			return
		case <-c.changes.wake:
		}
		for _, ch := range c.changes.take() {
			c.opts.Logger.Info("namespace "+ch.Kind.String(), "nqn", c.opts.SubNQN, "nsid", ch.Namespace.nsid, "size", ch.Namespace.Size())
			if c.opts.OnNamespaceChange != nil {
				c.opts.OnNamespaceChange(ch)
			}
		}
	}
}
