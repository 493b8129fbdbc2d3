package initiator

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"rbd/wire"
)

// maxNamespaces bounds how many namespaces of a subsystem are used.
const maxNamespaces = 4 * wire.MaxNSList

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

// scan asks for the namespaces for the first time.
func (c *Controller) scan(ctx context.Context) error {
	_, err := c.rescan(ctx)
	return err
}

// rescan asks for all namespaces and says what is not as it was. One goroutine at
// a time may do so.
func (c *Controller) rescan(ctx context.Context) ([]NamespaceChange, error) {
	nsids, err := c.activeNamespaces(ctx)
	if err != nil {
		return nil, err
	}
	var old map[uint32]*Namespace
	if m := c.namespaces.m.Load(); m != nil {
		old = *m
	}
	gone := maps.Clone(old)
	table := make(map[uint32]*Namespace, len(nsids))
	var changes, removed []NamespaceChange
	for _, nsid := range nsids {
		info, err := c.identifyNamespace(ctx, nsid)
		if err != nil {
			return nil, err
		}
		if info == nil {
			continue
		}
		n, kind := old[nsid], NamespaceChanged
		if n == nil || !n.info.Load().sameDisk(info) {
			n, kind = &Namespace{ctrl: c, nsid: nsid}, NamespaceAdded
		} else {
			delete(gone, nsid)
		}
		table[nsid] = n
		if before := n.info.Swap(info); before == nil || *before != *info {
			changes = append(changes, NamespaceChange{kind, n})
		}
	}
	c.namespaces.m.Store(&table)
	for _, nsid := range slices.Sorted(maps.Keys(gone)) {
		removed = append(removed, NamespaceChange{NamespaceRemoved, gone[nsid]})
	}
	return append(removed, changes...), nil
}

// sameDisk says that both describe the same namespace, maybe with another size.
// Another block size makes it another disk: ranges mean something else then.
func (n *NamespaceInfo) sameDisk(m *NamespaceInfo) bool {
	return n.UUID == m.UUID && n.NGUID == m.NGUID && n.EUI64 == m.EUI64 && n.BlockSize == m.BlockSize
}

// activeNamespaces is the list of active namespaces (CNS 02h), in increasing
// order.
func (c *Controller) activeNamespaces(ctx context.Context) ([]uint32, error) {
	var all, page wire.NSList
	for last := uint32(0); ; last = all[len(all)-1] {
		data, err := c.identify(ctx, wire.Identify{CNS: wire.CNSActiveNamespaces, NSID: last})
		if err != nil {
			return nil, err
		}
		if err := page.Parse(data); err != nil {
			return nil, err
		}
		for _, nsid := range page {
			if nsid <= last || nsid == wire.NSIDAll {
				return nil, fmt.Errorf("list of active namespaces: %d after %d", nsid, last)
			}
			last = nsid
		}
		if all = append(all, page...); len(all) > maxNamespaces {
			return nil, fmt.Errorf("list of active namespaces: more than %d", maxNamespaces)
		}
		if len(page) < wire.MaxNSList {
			return all, nil
		}
	}
}

// identifyNamespace asks for one namespace. It returns nil, and logs why, for one
// that can't be used.
func (c *Controller) identifyNamespace(ctx context.Context, nsid uint32) (*NamespaceInfo, error) {
	var ns wire.IdentifyNamespace
	var ids wire.NSDescriptors
	data, err := c.identify(ctx, wire.Identify{CNS: wire.CNSNamespace, NSID: nsid})
	if err == nil {
		err = ns.Parse(data)
	}
	if err == nil && ns.NCAP == 0 {
		return nil, nil // gone since it was listed
	}
	if err == nil && c.info.vs >= wire.MakeVersion(1, 3, 0) {
		if data, err = c.identify(ctx, wire.Identify{CNS: wire.CNSNamespaceDescriptors, NSID: nsid}); err == nil {
			err = ids.Parse(data)
		}
	}
	var info *NamespaceInfo
	if err == nil {
		info, err = describe(nsid, &c.info, &ns, &ids)
	}
	if err != nil && c.Err() == nil && ctx.Err() == nil {
		c.opts.Logger.Warn("namespace left out", "nqn", c.opts.SubNQN, "nsid", nsid, "err", err)
		return nil, nil
	}
	return info, err
}
