package target

import (
	"bytes"
	"testing"

	"rbd/wire"
)

// TestReadWrite protects the whole way of data, in all the forms that it can take.
func TestReadWrite(t *testing.T) {
	e := newEnv(t)
	e.addRAM(16 << 20)
	_, cntlid := e.admin(testNQN)
	q := e.io(cntlid, 1, 32)
	for _, n := range []int{512, 4096, 8192, 64 << 10, 1 << 20} {
		want := bytes.Repeat([]byte{byte(n >> 9), 1, 2, 3}, n/4)
		copy(q.data(n), want)
		q.must(q.rangeCmd(wire.IOWrite, 8, uint32(n/512)))
		clear(q.data(n))
		q.must(q.rangeCmd(wire.IORead, 8, uint32(n/512)))
		if !bytes.Equal(q.data(n), want) {
			t.Errorf("%d bytes: other data comes back", n)
		}
	}
	want := bytes.Repeat([]byte("in-capsule data "), 512)
	sqe := wire.RangeSQE(wire.IOWrite, 1, 100, 16)
	sqe.SGL = wire.OffsetSGL(0, 8192)
	q.must(sqe, want...)
	q.must(q.rangeCmd(wire.IORead, 100, 16))
	if !bytes.Equal(q.data(8192), want) {
		t.Error("in-capsule data: other data comes back")
	}
}
