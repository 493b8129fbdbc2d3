package initiator

import (
	"testing"

	"rbd/wire"
)

// FuzzDescribe takes whatever a controller may say of itself and a namespace: a
// namespace that is accepted has a size that can't overflow, and limits by which
// every command for it has at least one block and at most what its field holds.
func FuzzDescribe(f *testing.F) {
	seed := func(change func(*wire.IdentifyNamespace)) {
		n := blocks512(2048)
		change(n)
		f.Add(n.Append(nil)[:160], uint8(8), uint8(0), uint32(0))
	}
	seed(func(*wire.IdentifyNamespace) {})
	seed(func(n *wire.IdentifyNamespace) { n.LBAF[0].LBADS = 12; n.NSFEAT = 0xFF; n.NPWG = 0xFFFF })
	seed(func(n *wire.IdentifyNamespace) { n.NSZE = 1<<64 - 1 })
	f.Fuzz(func(t *testing.T, data []byte, mdts, wzsl uint8, dmrsl uint32) {
		var n wire.IdentifyNamespace
		if err := n.Parse(append(data, make([]byte, wire.IdentifySize)...)[:wire.IdentifySize]); err != nil {
			t.Fatal(err)
		}
		c := controllerInfo{
			maxTransfer: transferLimit(mdts, defaultTransfer), maxZeroes: transferLimit(wzsl, maxZeroesBytes), maxTrimBlocks: max(1, uint64(dmrsl)),
		}
		c.id.ONCS = wire.ONCSDSM | wire.ONCSWriteZeroes
		info, err := describe(1, &c, &n, &wire.NSDescriptors{})
		if err != nil {
			return
		}
		if info.Size>>info.shift != n.NSZE || info.Size > 1<<63 {
			t.Fatalf("%d blocks of %d bytes are %d bytes", n.NSZE, info.BlockSize, info.Size)
		}
		for op, limit := range map[Op]uint64{OpRead: info.maxTransfer, OpWriteZeroes: info.maxZeroes, OpTrim: info.maxTrim} {
			r := Request{Op: op, NSID: 1, Length: info.Size, info: info}
			r.Buf.Data = make([]byte, min(info.Size, 1<<20))
			if info.check(&r) != nil {
				continue
			}
			most := uint64(wire.MaxBlocks)
			if op == OpTrim {
				most = 1<<32 - 1
			}
			if blocks := min(limit, info.Size) >> info.shift; blocks == 0 || blocks > most {
				t.Fatalf("%v: commands of %d blocks", op, blocks)
			}
		}
	})
}
