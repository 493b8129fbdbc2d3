package initiator

import (
	"context"
	"fmt"

	"rbd/wire"
)

// maxNamespaces bounds how many namespaces of a subsystem are used.
const maxNamespaces = 4 * wire.MaxNSList

// scan asks for the namespaces of a new association.
func (a *association) scan(ctx context.Context) (err error) {
	a.found, err = a.survey(ctx)
	return err
}

// survey asks for all namespaces.
func (a *association) survey(ctx context.Context) ([]*NamespaceInfo, error) {
	nsids, err := a.activeNamespaces(ctx)
	if err != nil {
		return nil, err
	}
	found := make([]*NamespaceInfo, 0, len(nsids))
	for _, nsid := range nsids {
		info, err := a.identifyNamespace(ctx, nsid)
		if err != nil {
			return nil, err
		}
		if info != nil {
			found = append(found, info)
		}
	}
	return found, nil
}

// activeNamespaces is the list of active namespaces (CNS 02h), in increasing
// order.
func (a *association) activeNamespaces(ctx context.Context) ([]uint32, error) {
	var all, page wire.NSList
	for last := uint32(0); ; last = all[len(all)-1] {
		data, err := a.identify(ctx, wire.Identify{CNS: wire.CNSActiveNamespaces, NSID: last})
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
// that can't be used. One that was there before and can't be asked about for a
// moment is an error: requests wait for it.
func (a *association) identifyNamespace(ctx context.Context, nsid uint32) (*NamespaceInfo, error) {
	var ns wire.IdentifyNamespace
	var ids wire.NSDescriptors
	data, err := a.identify(ctx, wire.Identify{CNS: wire.CNSNamespace, NSID: nsid})
	if err == nil {
		err = ns.Parse(data)
	}
	if err == nil && ns.NCAP == 0 {
		return nil, nil // gone since it was listed
	}
	if err == nil && a.info.vs >= wire.MakeVersion(1, 3, 0) {
		if data, err = a.identify(ctx, wire.Identify{CNS: wire.CNSNamespaceDescriptors, NSID: nsid}); err == nil {
			err = ids.Parse(data)
		}
	}
	var info *NamespaceInfo
	if err == nil {
		info, err = describe(nsid, &a.info, &ns, &ids)
	}
	if err == nil || a.err() != nil || ctx.Err() != nil {
		return info, err
	}
	if a.c.known[nsid] != nil && isTransient(err) {
		return nil, fmt.Errorf("namespace %d: %w", nsid, err)
	}
	a.c.opts.Logger.Warn("namespace left out", "nqn", a.c.opts.SubNQN, "nsid", nsid, "err", err)
	return nil, nil
}
