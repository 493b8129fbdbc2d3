package nbd_test

import (
	"fmt"
	"io"
	"testing"
	"time"

	"rbd/nbd/nbdtest"
)

// BenchmarkTransmission is requests per second of one connection with a client
// that costs next to nothing: it sends as many as its depth in one write and
// reads their replies as one.
func BenchmarkTransmission(b *testing.B) {
	for _, bb := range []struct{ depth, length int }{{1, 4096}, {32, 4096}, {8, 128 << 10}, {4, 1 << 20}} {
		for _, cmd := range []uint16{nbdtest.CmdRead, nbdtest.CmdWrite} {
			b.Run(fmt.Sprintf("%s/%dKiB/depth%d", map[uint16]string{nbdtest.CmdRead: "read", nbdtest.CmdWrite: "write"}[cmd], bb.length>>10, bb.depth), func(b *testing.B) {
				c := start(b, newRAM(b, 1<<20)).open(b, nbdtest.Structured)
				c.SetDeadline(time.Time{})
				r := nbdtest.Request{Cmd: cmd, Length: uint64(bb.length)}
				reply := 28 + bb.length
				if cmd == nbdtest.CmdWrite {
					r.Payload = make([]byte, bb.length)
					reply = 16
				}
				var out []byte
				for range bb.depth {
					out = r.Append(out, nbdtest.Structured)
				}
				in := make([]byte, bb.depth*reply)
				b.SetBytes(int64(bb.length))
				b.ReportAllocs()
				for i := 0; i < b.N; i += bb.depth {
					if _, err := c.Write(out); err != nil {
						b.Fatal(err)
					}
					if _, err := io.ReadFull(c, in); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
