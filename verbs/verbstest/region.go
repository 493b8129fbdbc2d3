package verbstest

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"rbd/verbs"
)

const (
	guard     = 4096 // bytes of memory before and after each region
	guardByte = 0xEE
)

// AllAccess are all rights.
const AllAccess = verbs.AccessLocalWrite | verbs.AccessRemoteRead | verbs.AccessRemoteWrite

// Region is a memory region with unregistered memory on both sides of it, which
// must stay as it is.
type Region struct {
	Mem []byte
	MR  verbs.MR

	e   *Env
	all []byte
}

// Region registers n bytes of fresh memory. It is deregistered when the case
// ends; regions of a Side's domain are better made with Side.Region.
func (e *Env) Region(pd verbs.PD, n int, access verbs.Access) *Region {
	e.T.Helper()
	r := e.region(pd, n, access)
	e.T.Cleanup(r.Close)
	return r
}

func (e *Env) region(pd verbs.PD, n int, access verbs.Access) *Region {
	e.T.Helper()
	all, err := verbs.AllocMemory(n + 2*guard)
	if err != nil {
		e.T.Fatal(err)
	}
	r := &Region{e: e, all: all, Mem: all[guard : guard+n : guard+n]}
	before, after := r.guards()
	fillByte(before, guardByte)
	fillByte(after, guardByte)
	if r.MR, err = pd.RegMR(r.Mem, access); err != nil {
		e.T.Fatalf("register %d bytes with %v: %v", n, access, err)
	}
	return r
}

func (r *Region) guards() (before, after []byte) {
	return r.all[:guard], r.all[guard+len(r.Mem):]
}

// Close ends the region, checks the memory around it, and frees all.
func (r *Region) Close() {
	if r.all == nil {
		return
	}
	r.e.Destroy("MR", r.MR.Dereg)
	before, after := r.guards()
	for _, g := range [][]byte{before, after} {
		if !allBytes(g, guardByte) {
			r.e.T.Error("memory outside of a region was written")
		}
	}
	if err := verbs.FreeMemory(r.all); err != nil {
		r.e.T.Error(err)
	}
	r.all, r.Mem = nil, nil
}

// Addr is the virtual address of the region's byte off.
func (r *Region) Addr(off int) uint64 { return r.MR.Addr() + uint64(off) }

// SGE is the scatter/gather element of n bytes at off. It checks nothing.
func (r *Region) SGE(off, n int) verbs.SGE {
	return verbs.SGE{Addr: r.Addr(off), Length: uint32(n), LKey: r.MR.LKey()}
}

// All is the SGE list of the whole region.
func (r *Region) All() []verbs.SGE { return []verbs.SGE{r.SGE(0, len(r.Mem))} }

// Fill fills b with bytes that depend on seed.
func Fill(b []byte, seed uint64) {
	var s [32]byte
	binary.LittleEndian.PutUint64(s[:], seed)
	rand.NewChaCha8(s).Read(b)
}

// Filled is n bytes as Fill makes them.
func Filled(n int, seed uint64) []byte {
	b := make([]byte, n)
	Fill(b, seed)
	return b
}

func fillByte(b []byte, c byte) {
	for i := range b {
		b[i] = c
	}
}

func allBytes(b []byte, c byte) bool {
	for _, x := range b {
		if x != c {
			return false
		}
	}
	return true
}

// WantBytes fails the test at the first byte that differs.
func WantBytes(t testing.TB, what string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d bytes, want %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: byte %d of %d is %#02x, want %#02x", what, i, len(got), got[i], want[i])
		}
	}
}
