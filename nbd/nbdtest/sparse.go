package nbdtest

import (
	"bytes"
	"context"

	"rbd/nbd"
)

// Sparse is a RAM that reports its pages of zeroes as holes.
type Sparse struct{ *RAM }

const page = 4096

var zeroPage [page]byte

// BlockStatus reports runs of zero and other pages.
func (d Sparse) BlockStatus(_ context.Context, offset, length uint64, extents []nbd.Extent) (int, error) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	n := 0
	for at := offset; at < offset+length; {
		end := min(at-at%page+page, offset+length)
		b := d.Data[at:end]
		zero := bytes.Equal(b, zeroPage[:len(b)])
		if n == 0 || extents[n-1].Hole != zero {
			if n == len(extents) {
				break
			}
			extents[n] = nbd.Extent{Hole: zero, Zero: zero}
			n++
		}
		extents[n-1].Length += end - at
		at = end
	}
	return n, nil
}
