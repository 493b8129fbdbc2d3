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

// An end that takes long tells how many requests it waits for.
func TestInFlight(t *testing.T) {
	ram, answer := newRAM(t, 1<<20), make(chan struct{})
	ram.Fault = func(*nbd.Request) error { <-answer; return nil }
	r := start(t, ram)
	r.dial(t) // one that is still negotiating
	c := r.open(t, nbdtest.Simple)
	expect := func(want int) {
		t.Helper()
		for end := time.Now().Add(patience); r.InFlight() != want; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d requests are in flight, want %d", r.InFlight(), want)
			}
		}
	}
	expect(0)
	if err := c.Send(nbdtest.Request{Cmd: nbdtest.CmdFlush}, nbdtest.Request{Cmd: nbdtest.CmdFlush}); err != nil {
		t.Fatal(err)
	}
	expect(2)
	close(answer)
	expect(0)
}
