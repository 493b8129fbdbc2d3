package ibv

import (
	"errors"
	"fmt"

	"rbd/verbs"
	"rbd/verbs/internal/object"
)

// pd is a protection domain.
type pd struct {
	dev    *device
	native uintptr
	users  object.Users
}

func (d *device) AllocPD() (verbs.PD, error) {
	p := &pd{dev: d}
	err := d.with(func() (err error) {
		if p.native, err = d.lib.allocPD(d.context); err == nil {
			d.life.add(p)
		}
		return err
	})
	if err != nil {
		return nil, d.explain("allocate protection domain", err)
	}
	return p, nil
}

func (p *pd) giveUp()  { _ = p.dev.lib.deallocPD(p.native) }
func (*pd) level() int { return levelPD }

func (p *pd) Device() verbs.Device { return p.dev }

func (p *pd) Dealloc() error {
	if err := p.users.Free("deallocate protection domain"); err != nil {
		return err
	}
	err := p.dev.with(func() error {
		p.dev.life.drop(p)
		return p.dev.lib.deallocPD(p.native)
	})
	if err != nil && !errors.Is(err, errDeviceRemoved) {
		return p.dev.explain("deallocate protection domain", err)
	}
	return nil
}

// RegMR pins the memory. It is asked for in huge pages first: fewer pages are
// fewer entries in the device's table.
func (p *pd) RegMR(mem []byte, access verbs.Access) (verbs.MR, error) {
	switch limit := p.dev.attr.MaxMRSize; {
	case len(mem) == 0 || uint64(len(mem)) > limit:
		return nil, fmt.Errorf("register memory: %d bytes, 1..%d are possible: %w", len(mem), limit, verbs.ErrInvalid)
	case !access.Valid():
		return nil, fmt.Errorf("register memory: access %s (%#x): %w", access, uint32(access), verbs.ErrInvalid)
	case !p.users.Add():
		return nil, fmt.Errorf("register memory: protection domain: %w", verbs.ErrClosed)
	}
	m, err := p.register(mem, access)
	if err != nil {
		p.users.Remove()
		return nil, err
	}
	return m, nil
}

func (p *pd) register(mem []byte, access verbs.Access) (*mr, error) {
	what := fmt.Sprintf("register %d bytes of memory", len(mem))
	if err := p.dev.p.memlock.check(len(mem)); err != nil {
		return nil, fmt.Errorf("device %s: %s: %w", p.dev.name, what, err)
	}
	wantHugePages(mem)
	m := &mr{pd: p, base: verbs.AddrOf(mem), length: len(mem)}
	err := p.dev.with(func() (err error) {
		if m.mrInfo, err = p.dev.lib.regMR(p.native, mem, access); err == nil {
			p.dev.life.add(m)
		}
		return err
	})
	if err != nil {
		return nil, p.dev.explain(what, err)
	}
	return m, nil
}
