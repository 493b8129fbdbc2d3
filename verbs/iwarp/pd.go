package iwarp

import (
	"fmt"

	"rbd/verbs"
	"rbd/verbs/internal/object"
)

// pd is a protection domain: an identity that MRs and QPs compare.
type pd struct {
	dev   *device
	users object.Users
}

func (p *pd) Device() verbs.Device { return p.dev }

func (p *pd) RegMR(mem []byte, access verbs.Access) (verbs.MR, error) {
	switch {
	case len(mem) == 0 || uint64(len(mem)) > maxMRSize:
		return nil, fmt.Errorf("register memory: %d bytes, 1..%d are possible: %w", len(mem), uint64(maxMRSize), verbs.ErrInvalid)
	case !access.Valid():
		return nil, fmt.Errorf("register memory: access %s (%#x): %w", access, uint32(access), verbs.ErrInvalid)
	case !p.users.Add():
		return nil, fmt.Errorf("register memory: protection domain: %w", verbs.ErrClosed)
	}
	m := &mr{pd: p, mem: mem, base: verbs.AddrOf(mem), access: access, drained: make(chan struct{}, 1)}
	if err := p.dev.keys.insert(m); err != nil {
		p.users.Remove()
		return nil, fmt.Errorf("register memory: %w", err)
	}
	return m, nil
}

func (p *pd) Dealloc() error { return p.users.Free("deallocate protection domain") }
