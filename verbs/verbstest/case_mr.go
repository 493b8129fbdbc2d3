package verbstest

import (
	"math/bits"
	"testing"

	"rbd/verbs"
)

var mrCases = []Case{
	{"MRAttributes", testMRAttributes},
	{"MRAccess", testMRAccess},
	{"MREmpty", testMREmpty},
	{"MRDereg", testMRDereg},
	{"MRKeysUnique", testMRKeysUnique},
	{"MRKeysRandom", testMRKeysRandom},
	{"MRKeysNotReused", testMRKeysNotReused},
	{"MROverlap", testMROverlap},
	{"MRLimit", testMRLimit},
}

// Protects the arithmetic of everyone who uses a region: it begins at the
// memory's first byte and has its length, not whole pages.
func testMRAttributes(t *testing.T, e *Env) {
	mem, err := verbs.AllocMemory(3 * 4096)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := verbs.FreeMemory(mem); err != nil {
			t.Error(err)
		}
	}()
	for _, part := range [][]byte{mem, mem[:1], mem[100:333], mem[4095:4097], mem[len(mem)-1:]} {
		mr, err := e.PD().RegMR(part, AllAccess)
		if err != nil {
			t.Fatalf("register %d bytes: %v", len(part), err)
		}
		if mr.Addr() != verbs.AddrOf(part) || mr.Len() != len(part) {
			t.Errorf("region of %d bytes at %#x: Len %d, Addr %#x", len(part), verbs.AddrOf(part), mr.Len(), mr.Addr())
		}
		e.Destroy("MR", mr.Dereg)
	}
}

// Protects the combinations of rights: ibv_reg_mr refuses remote write without
// local write, and unknown bits.
func testMRAccess(t *testing.T, e *Env) {
	mem, err := verbs.AllocMemory(4096)
	if err != nil {
		t.Fatal(err)
	}
	pd := e.PD()
	for _, access := range []verbs.Access{0, 1, 2, 3, 4, 5, 6, 7, 8, 1 << 20, AllAccess | 1<<31} {
		mr, err := pd.RegMR(mem, access)
		if err == nil {
			e.Destroy("MR", mr.Dereg)
		}
		if access.Valid() && err != nil {
			t.Errorf("register with access %#x: %v", uint32(access), err)
		}
		if !access.Valid() {
			e.WantErr("register with invalid access", err, verbs.ErrInvalid)
		}
	}
	if err := verbs.FreeMemory(mem); err != nil {
		t.Error(err)
	}
}

// Protects from regions without memory, whose address would be 0.
func testMREmpty(t *testing.T, e *Env) {
	pd := e.PD()
	_, err := pd.RegMR(nil, AllAccess)
	e.WantErr("register nil", err, verbs.ErrInvalid)
	_, err = pd.RegMR([]byte{}, AllAccess)
	e.WantErr("register an empty slice", err, verbs.ErrInvalid)
}

// Protects from deregistering twice: the second call must not end a younger region.
func testMRDereg(t *testing.T, e *Env) {
	pd := e.PD()
	old := e.Region(pd, 4096, AllAccess)
	if err := old.MR.Dereg(); err != nil {
		t.Fatal(err)
	}
	young := e.Region(pd, 4096, AllAccess)
	e.WantErr("deregister again", old.MR.Dereg(), verbs.ErrClosed)
	if err := young.MR.Dereg(); err != nil {
		t.Errorf("deregister the younger region: %v", err)
	}
}

// registerMany registers one piece of memory n times.
func registerMany(e *Env, n int) []verbs.MR {
	e.T.Helper()
	mem, err := verbs.AllocMemory(4096)
	if err != nil {
		e.T.Fatal(err)
	}
	pd := e.PD()
	mrs := make([]verbs.MR, 0, n)
	e.T.Cleanup(func() {
		for _, mr := range mrs {
			if err := mr.Dereg(); err != nil {
				e.T.Errorf("deregister: %v", err)
			}
		}
		if err := verbs.FreeMemory(mem); err != nil {
			e.T.Error(err)
		}
	})
	for range n {
		mr, err := pd.RegMR(mem, AllAccess)
		if err != nil {
			e.T.Fatalf("region %d: %v", len(mrs), err)
		}
		mrs = append(mrs, mr)
	}
	return mrs
}

// Protects regions from being taken for one another.
func testMRKeysUnique(t *testing.T, e *Env) {
	lkeys, rkeys := map[uint32]bool{}, map[uint32]bool{}
	for _, mr := range registerMany(e, min(2000, e.Device.Attr().MaxMR/2)) {
		if lkeys[mr.LKey()] || rkeys[mr.RKey()] {
			t.Fatalf("lkey %#x or rkey %#x is there twice", mr.LKey(), mr.RKey())
		}
		lkeys[mr.LKey()], rkeys[mr.RKey()] = true, true
	}
}

// Protects from a peer that guesses the keys of others from its own: they follow
// no order, keep no distance, and use every bit.
func testMRKeysRandom(t *testing.T, e *Env) {
	e.Need(e.Device.Attr().RandomKeys, "it hands keys out by index")
	mrs := registerMany(e, min(2000, e.Device.Attr().MaxMR/2))
	distances := map[uint32]int{}
	var rising, near int
	var ones [32]int
	for i, mr := range mrs {
		for b := range ones {
			ones[b] += int(mr.RKey() >> b & 1)
		}
		if i == 0 {
			continue
		}
		d := mr.RKey() - mrs[i-1].RKey()
		distances[d]++
		if mr.RKey() > mrs[i-1].RKey() {
			rising++
		}
		if bits.Len32(d) < 20 || bits.Len32(-d) < 20 {
			near++
		}
	}
	n := len(mrs)
	for b, c := range ones {
		if c < n*3/10 || c > n*7/10 {
			t.Errorf("bit %d is set in %d of %d rkeys", b, c, n)
		}
	}
	if rising < n*3/10 || rising > n*7/10 {
		t.Errorf("%d of %d rkeys are larger than the one before", rising, n)
	}
	if near > n/20 {
		t.Errorf("%d of %d rkeys are near the one before", near, n)
	}
	for d, c := range distances {
		if c > 2 {
			t.Errorf("the distance %#x occurs %d times", d, c)
		}
	}
}

// Protects a new region on old memory from those who know the old key.
func testMRKeysNotReused(t *testing.T, e *Env) {
	mem, err := verbs.AllocMemory(4096)
	if err != nil {
		t.Fatal(err)
	}
	pd := e.PD()
	seen := map[uint32]bool{}
	for range 100 {
		mr, err := pd.RegMR(mem, AllAccess)
		if err != nil {
			t.Fatal(err)
		}
		if seen[mr.RKey()] {
			t.Errorf("rkey %#x was used before", mr.RKey())
		}
		seen[mr.RKey()] = true
		e.Destroy("MR", mr.Dereg)
	}
	if err := verbs.FreeMemory(mem); err != nil {
		t.Error(err)
	}
}

// Protects regions on shared memory: each has its own bounds, rights and life.
func testMROverlap(t *testing.T, e *Env) {
	p := e.Pair(nil)
	big := p.Server.Buffer(8192, 1)
	small, err := p.Server.PD.RegMR(big.Mem[1000:2000], verbs.AccessRemoteRead)
	if err != nil {
		t.Fatal(err)
	}
	to := p.Client.Region(1000, AllAccess)
	p.Read(to.All(), small.Addr(), small.RKey())
	WantBytes(t, "read through the inner region", to.Mem, big.Mem[1000:2000])
	if err := small.Dereg(); err != nil {
		t.Fatal(err)
	}
	Fill(to.Mem, 2)
	p.Write(to.All(), big.Addr(1000), big.MR.RKey())
	WantBytes(t, "write through the outer region", big.Mem[1000:2000], to.Mem)
}

// Protects the device's table: it takes what it promises, says when it is full,
// and takes more when there is room again.
func testMRLimit(t *testing.T, e *Env) {
	limit := e.Device.Attr().MaxMR
	e.Need(limit <= 1<<18, "its regions are too many to register them all")
	mem, err := verbs.AllocMemory(4096)
	if err != nil {
		t.Fatal(err)
	}
	pd := e.PD()
	var mrs []verbs.MR
	var full error
	for full == nil && len(mrs) <= limit {
		var mr verbs.MR
		if mr, full = pd.RegMR(mem, 0); full == nil {
			mrs = append(mrs, mr)
		}
	}
	e.WantErr("register one too many", full, verbs.ErrNoMemory)
	if len(mrs) < limit/2 {
		t.Errorf("%d regions fit, the device promises %d", len(mrs), limit)
	}
	for i, mr := range mrs {
		if err := mr.Dereg(); err != nil {
			t.Fatalf("deregister region %d: %v", i, err)
		}
	}
	mr, err := pd.RegMR(mem, 0)
	if err != nil {
		t.Fatalf("register when there is room again: %v", err)
	}
	e.Destroy("MR", mr.Dereg)
	if err := verbs.FreeMemory(mem); err != nil {
		t.Error(err)
	}
}
