package initiator

import (
	"fmt"
	"testing"

	"rbd/target"
)

// returner is an owner whose requests come back through a channel.
type returner chan *Request

func (r returner) Complete(batch []*Request) {
	for _, q := range batch {
		r <- q
	}
}

// Protects the fast path from allocations over the real provider and target, which
// count too: they run in this process. In-capsule, keyed, reads and writes.
func TestAllocsOverTarget(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	d := serve(t, target.Config{}, anyHost, ram(t, 8<<20, 512))
	c := d.connect(Options{Queues: 1, KeepAlive: -1})
	for _, size := range []int{4096, 128 << 10} {
		for _, op := range []Op{OpRead, OpWrite} {
			t.Run(fmt.Sprintf("%v/%d", op, size), func(t *testing.T) {
				back := make(returner, 8)
				reqs := make([]*Request, 8)
				for i := range reqs {
					reqs[i] = &Request{Op: op, NSID: 1, Offset: uint64(i * size), Length: uint64(size), Owner: back}
					if !c.Buffers().TryGet(size, &reqs[i].Buf) {
						t.Fatal("no buffer")
					}
					defer c.Buffers().Put(&reqs[i].Buf)
				}
				round := func() {
					c.Queues()[0].Submit(reqs)
					for range reqs {
						if r := <-back; r.Err != nil {
							t.Error(r.Err)
						}
					}
				}
				for range 50 { // what grows once has grown then
					round()
				}
				if n := testing.AllocsPerRun(200, round); n >= 1 {
					t.Errorf("%v allocations for %d requests", n, len(reqs))
				}
			})
		}
	}
}
