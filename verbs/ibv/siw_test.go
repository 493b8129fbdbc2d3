package ibv

import (
	"testing"

	"rbd/verbs"
)

// Protects programs with many connections on siw: its library can't make the queue
// that lies at one certain place, so that this place is taken, by something that goes
// with the device.
func TestOccupyInvalidKey(t *testing.T) {
	for vendor, want := range map[uint32]int{siwVendor: 1, 0x2c9: 0} {
		b := newBench(t, func(_ *verbs.QPInitAttr, _ *verbs.CQAttr, f *fakeLibrary) { f.info.vendorID = vendor })
		occupying := func() (n int) {
			b.lib.mu.Lock()
			defer b.lib.mu.Unlock()
			for _, depth := range b.lib.depths {
				if depth == occupyingCQE {
					n++
				}
			}
			return n
		}
		if n := occupying(); n != want {
			t.Errorf("vendor %#x: %d such CQs, want %d", vendor, n, want)
		}
		b.qp.dev.remove()
		if n := occupying(); n != 0 {
			t.Errorf("vendor %#x: %d such CQs are left when the device is gone", vendor, n)
		}
	}
}

// Protects the send queue from a READ that siw refuses to the end of the connection:
// what is done in order anyway is not fenced. All else keeps its flags.
func TestOrderFlags(t *testing.T) {
	const fence, signaled = verbs.SendFence, verbs.SendSignaled
	large := []verbs.SGE{{Length: 4096}}
	for _, tt := range []struct {
		wr     verbs.SendWR
		sigAll bool
		want   verbs.SendFlags
	}{
		{verbs.SendWR{Opcode: verbs.WRRDMARead, Flags: fence}, false, signaled},
		{verbs.SendWR{Opcode: verbs.WRRDMARead, Flags: fence | signaled}, false, signaled},
		{verbs.SendWR{Opcode: verbs.WRRDMARead, Flags: fence}, true, 0},
		{verbs.SendWR{Opcode: verbs.WRSend, Flags: fence}, false, fence},
		{verbs.SendWR{Opcode: verbs.WRSend, Flags: fence, SGEs: large}, false, fence | signaled},
		{verbs.SendWR{Opcode: verbs.WRRDMAWrite, Flags: fence | signaled, SGEs: large}, false, fence | signaled},
	} {
		if got := newSendOrder(8).put(3, &tt.wr, tt.sigAll); got != tt.want {
			t.Errorf("%v with flags %v, all signaled %v: posted with %v, want %v", tt.wr.Opcode, tt.wr.Flags, tt.sigAll, got, tt.want)
		}
	}
}

// Protects memory from an RDMA READ of nothing on siw, which would fill the place that
// an older request has named: it has an SGE of its own, an empty one.
func TestEmptyReadHasSGE(t *testing.T) {
	for _, iwarp := range []bool{false, true} {
		b := newBench(t, func(_ *verbs.QPInitAttr, _ *verbs.CQAttr, f *fakeLibrary) { f.info.iwarp = iwarp }).connect()
		empty := []verbs.SGE{{Addr: 0x1000, LKey: 1}}
		if err := b.qp.PostSend([]verbs.SendWR{{Opcode: verbs.WRRDMARead, SGEs: empty}, {Opcode: verbs.WRRDMARead}, {Opcode: verbs.WRSend, SGEs: empty}}); err != nil {
			t.Fatal(err)
		}
		want := []uint32{0, 0, 0}
		if iwarp {
			want = []uint32{1, 1, 0}
		}
		for i, r := range b.lib.sent {
			if r.sges != want[i] {
				t.Errorf("iWARP %v: request %d has %d SGEs, want %d", iwarp, i, r.sges, want[i])
			}
		}
		for _, s := range b.lib.sentSGEs {
			if s != (verbs.SGE{}) {
				t.Errorf("iWARP %v: the SGE %+v is not empty", iwarp, s)
			}
		}
	}
}
