package backend_test

import (
	"errors"
	"testing"

	"rbd/target/backend"
)

// Nothing passes the wrapper that would change data, and reading goes on.
func TestReadOnly(t *testing.T) {
	ram, err := backend.NewRAM(1<<20, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer ram.Close()
	b := backend.ReadOnly(ram)
	if a := b.Attributes(); !a.ReadOnly || a.VolatileCache || !a.NonBlocking {
		t.Errorf("%+v", a)
	}
	p := []byte{1}
	p = append(p, make([]byte, 511)...)
	for name, err := range map[string]error{
		"try write": b.TryWriteAt(p, 0, 0), "write": b.WriteAt(p, 0, 0), "trim": b.Trim(0, 512), "write zeroes": b.WriteZeroes(0, 512, 0),
	} {
		if !errors.Is(err, backend.ErrReadOnly) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := b.Flush(); err != nil {
		t.Error(err)
	}
	if err := b.TryReadAt(p, 0); err != nil || p[0] != 0 {
		t.Errorf("read: %v, first byte %d", err, p[0])
	}
}
