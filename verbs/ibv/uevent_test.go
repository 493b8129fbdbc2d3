package ibv

import (
	"os"
	"path/filepath"
	"testing"
)

// Protects `rdma link delete` from waiting for ever, and programs from losing a device
// that is still there: the device is given up when its file is gone, also if another
// one has come under the name, and at no other event.
func TestRemoveGone(t *testing.T) {
	sys := t.TempDir()
	dir := filepath.Join(sys, "class", "infiniband_verbs", "uverbs0")
	create := func() {
		t.Helper()
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "ibdev"), []byte("fake0\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	create()
	for _, returns := range []bool{false, true} {
		b := newBench(t, nil)
		b.qp.dev.file = system{sys: sys}.verbsFile("fake0")
		if b.p.removeGone(); b.qp.dev.removed() {
			t.Fatal("a device was removed whose file is there")
		}
		if err := os.Rename(dir, dir+"x"); err != nil { // keeps the number from being used again
			t.Fatal(err)
		}
		if returns {
			create()
		}
		if b.p.removeGone(); !b.qp.dev.removed() {
			t.Errorf("a device is kept whose file is gone (another one has come: %v)", returns)
		}
		_ = os.RemoveAll(dir)
		if err := os.Rename(dir+"x", dir); err != nil {
			t.Fatal(err)
		}
	}
	if (verbsFile{dir: filepath.Join(dir, "ibdev", "x"), inode: 1}).removed() { // ENOTDIR
		t.Error("a device that can't be looked for looks removed")
	}
	if (system{sys: sys}).verbsFile("other0") != (verbsFile{}) || (verbsFile{}).removed() {
		t.Error("a device without file must not look removed")
	}
}

// Protects from looking at the devices with each of the machine's events, and from
// missing the one that matters.
func TestIsRemoval(t *testing.T) {
	for event, want := range map[string]bool{
		"remove@/devices/virtual/infiniband_verbs/uverbs0\x00ACTION=remove\x00SUBSYSTEM=infiniband_verbs\x00": true,
		"remove@/devices/pci0000:00/0000:00:1f.0/infiniband_verbs/uverbs12\x00":                               true,
		"add@/devices/virtual/infiniband_verbs/uverbs0\x00":                                                   false,
		"remove@/devices/virtual/net/eth0\x00X=/infiniband_verbs/\x00":                                        false,
		"libudev\x00": false, "": false,
	} {
		if got := isRemoval([]byte(event)); got != want {
			t.Errorf("%q: %v", event, got)
		}
	}
}
