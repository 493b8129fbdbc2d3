package nbd_test

import (
	"io"
	"testing"

	"rbd/nbd/nbdtest"
)

// The data path produces no garbage: reads, writes and everything around them,
// on a device that completes at once and in every reply mode.
func TestNoAllocations(t *testing.T) {
	s := start(t, newRAM(t, 1<<20))
	for _, mode := range modes {
		c := s.open(t, mode)
		read, write, flush, refused := nbdtest.Request{Cmd: nbdtest.CmdRead, Length: 4096}, nbdtest.Request{Cmd: nbdtest.CmdWrite, Payload: make([]byte, 4096)},
			nbdtest.Request{Cmd: nbdtest.CmdFlush}, nbdtest.Request{Cmd: 99}
		var out []byte
		for range 32 {
			for _, r := range []nbdtest.Request{read, write, flush, refused} {
				out = r.Append(out, mode)
			}
		}
		replies := 32 * (4096 + map[nbdtest.Mode]int{
			nbdtest.Simple:     4 * 16,
			nbdtest.Structured: 28 + 2*16 + 26,
			nbdtest.Extended:   40 + 2*32 + 38,
		}[mode])
		in := make([]byte, replies)
		if n := testing.AllocsPerRun(50, func() {
			if _, err := c.Write(out); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(c, in); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v: %v allocations for 128 requests", mode, n)
		}
	}
}

// Nor does it when the socket is full, so that the writer goroutine takes part
// and the reader waits for slots.
func TestNoAllocationsWhenFull(t *testing.T) {
	c := start(t, newRAM(t, 1<<20)).open(t, nbdtest.Structured)
	const count, length = 400, 16384
	var out []byte
	for range count {
		out = nbdtest.Request{Cmd: nbdtest.CmdRead, Length: length}.Append(out, nbdtest.Structured)
	}
	in := make([]byte, count*(28+length))
	if n := testing.AllocsPerRun(20, func() {
		if _, err := c.Write(out); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(c, in); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for %d requests", n, count)
	}
}
