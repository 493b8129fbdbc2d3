package iwarp

import (
	"errors"
	"sync"
	"testing"
	"time"

	"rbd/verbs"
)

// Protects every check of a key, at its edges and at the ends of the address
// space.
func TestKeyCheck(t *testing.T) {
	var table keyTable
	mine, other := &pd{}, &pd{}
	low := &mr{pd: mine, mem: make([]byte, 100), base: 0, access: allRights}
	high := &mr{pd: mine, mem: make([]byte, 100), base: ^uint64(0) - 99, access: verbs.AccessRemoteRead}
	for _, m := range []*mr{low, high} {
		must(t, table.insert(m))
	}
	for _, tt := range []struct {
		pd      *pd
		key     uint32
		addr, n uint64
		right   verbs.Access
		want    accessError
		off     uint64
	}{
		{mine, low.key, 0, 100, verbs.AccessRemoteWrite, accessOK, 0},
		{mine, low.key, 99, 1, 0, accessOK, 99},
		{mine, low.key, 99, 2, 0, badBounds, 0},
		{mine, low.key, 100, 1, 0, badBounds, 0},
		{mine, low.key, 0, 1 << 63, 0, badBounds, 0},
		{mine, low.key, ^uint64(0), 1, 0, badBounds, 0},
		{mine, low.key, ^uint64(0), 2, 0, badWrap, 0},
		{mine, low.key, 2, ^uint64(0), 0, badWrap, 0},
		{mine, low.key ^ keySlots, 0, 1, 0, badSTag, 0},
		{mine, low.key + 1, 0, 1, 0, badSTag, 0},
		{other, low.key, 0, 1, 0, badDomain, 0},
		{mine, high.key, high.base, 100, verbs.AccessRemoteRead, accessOK, 0},
		{mine, high.key, ^uint64(0), 1, 0, accessOK, 99},
		{mine, high.key, ^uint64(0), 2, 0, badWrap, 0},
		{mine, high.key, high.base - 1, 2, 0, badBounds, 0},
		{mine, high.key, 0, 1, 0, badBounds, 0},
		{mine, high.key, high.base, 1, verbs.AccessRemoteWrite, badRights, 0},
	} {
		_, off, e := table.check(tt.pd, tt.key, tt.addr, tt.n, tt.right)
		if e != tt.want || e == accessOK && off != tt.off {
			t.Errorf("%+v: %s at %d", tt, e, off)
		}
	}
	if table.invalidate(other, low.key) || table.invalidate(mine, low.key+1) {
		t.Error("somebody else's key was invalidated")
	}
	local := &mr{pd: mine, mem: make([]byte, 1), access: verbs.AccessLocalWrite}
	must(t, table.insert(local))
	if table.invalidate(mine, local.key) {
		t.Error("the peer invalidated a key that it was never given")
	}
	if !table.invalidate(mine, low.key) || !table.invalidate(mine, low.key) {
		t.Error("the own key was not invalidated, or not again")
	}
	if _, _, e := table.check(mine, low.key, 0, 1, 0); e != badSTag {
		t.Errorf("an invalidated key: %s", e)
	}
}

// Protects the table's bound: the region that is one too many is refused, and
// room comes back.
func TestKeyTableFull(t *testing.T) {
	d := New().dev
	p := &pd{dev: d}
	mem := make([]byte, 1)
	regs := make([]verbs.MR, maxMR)
	for i := range regs {
		m, err := p.RegMR(mem, 0)
		must(t, err)
		regs[i] = m
	}
	if _, err := p.RegMR(mem, 0); !errors.Is(err, verbs.ErrNoMemory) {
		t.Errorf("region %d: %v", maxMR+1, err)
	}
	for _, m := range regs {
		must(t, m.Dereg())
	}
	must(t, p.Dealloc())
}

// Protects memory that is freed: Dereg waits for the accesses in progress, and
// none begins after it.
func TestDeregWaits(t *testing.T) {
	d := New().dev
	p := &pd{dev: d}
	for range 50 {
		reg, err := p.RegMR(make([]byte, 8), allRights)
		must(t, err)
		m := reg.(*mr)
		var wg sync.WaitGroup
		alive := true
		for range 4 {
			wg.Go(func() {
				for {
					got, _, e := d.keys.acquire(p, m.key, m.base, 8, 0)
					if e != accessOK {
						return
					}
					if !alive { // the race detector watches, too
						t.Error("access after Dereg")
					}
					got.release()
				}
			})
		}
		time.Sleep(100 * time.Microsecond)
		must(t, m.Dereg())
		alive = false
		wg.Wait()
	}
}
