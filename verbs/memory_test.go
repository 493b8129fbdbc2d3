package verbs

import (
	"errors"
	"math"
	"os"
	"testing"
)

// Protects what regions rely on: whole zeroed pages, writable to the last byte,
// at an address that pages begin at.
func TestAllocMemory(t *testing.T) {
	page := os.Getpagesize()
	for _, n := range []int{1, page - 1, page, page + 1, 10 * page, 1<<30 + 1} {
		b, err := AllocMemory(n)
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if len(b) < n || len(b) != cap(b) || len(b)%page != 0 || len(b)-n >= page {
			t.Errorf("%d bytes: length %d, capacity %d", n, len(b), cap(b))
		}
		if a := AddrOf(b); a == 0 || a%uint64(page) != 0 || AddrOf(b[5%len(b):]) != a+uint64(5%len(b)) {
			t.Errorf("%d bytes: address %#x", n, a)
		}
		if b[0] != 0 || b[len(b)-1] != 0 {
			t.Errorf("%d bytes: not zeroed", n)
		}
		b[0], b[len(b)-1] = 1, 2
		if err := FreeMemory(b); err != nil {
			t.Error(err)
		}
	}
}

// Protects from sizes that make no sense, and from freeing what was not allocated.
func TestAllocMemoryErrors(t *testing.T) {
	for n, want := range map[int]error{0: ErrInvalid, -1: ErrInvalid, math.MinInt: ErrInvalid, math.MaxInt: ErrNoMemory, math.MaxInt - 4096: nil} {
		b, err := AllocMemory(n)
		if err == nil || b != nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%d bytes: %d bytes, error %v, want %v", n, len(b), err, want)
		}
	}
	b, err := AllocMemory(8192)
	if err != nil {
		t.Fatal(err)
	}
	if err := FreeMemory(b[:4096]); err == nil {
		t.Error("a part was freed")
	}
	if err := FreeMemory(b); err != nil {
		t.Error(err)
	}
	if err := FreeMemory(b); err == nil {
		t.Error("the memory was freed twice")
	}
	if a := AddrOf(nil); a != 0 {
		t.Errorf("nil is at %#x", a)
	}
}
