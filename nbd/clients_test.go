package nbd_test

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"rbd/nbd"
	"rbd/nbd/nbdtest"
)

// Who ends a disk must know who uses it: the clients that have opened an export, by
// process or address, until they are gone, and not those that only look.
func TestClients(t *testing.T) {
	r := start(t, newRAM(t, 1<<20))
	process := nbd.Client{Name: fmt.Sprintf("pid %d", os.Getpid()), Export: "disk"}
	expect := func(want ...nbd.Client) {
		t.Helper()
		for end := time.Now().Add(patience); !slices.Equal(r.Clients(), want); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("clients are %v, want %v", r.Clients(), want)
			}
		}
	}
	looks := r.dial(t)
	defer looks.Close()
	first := r.open(t, nbdtest.Simple)
	expect(process)
	r.listen(t, "tcp")
	second := r.open(t, nbdtest.Simple)
	expect(nbd.Client{Name: second.LocalAddr().String(), Export: "disk"}, process)
	first.Close()
	expect(nbd.Client{Name: second.LocalAddr().String(), Export: "disk"})
	second.Close()
	expect()
}
