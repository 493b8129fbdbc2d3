package initiator

import (
	"context"
	"fmt"

	"rbd/verbs"
	"rbd/verbs/bufpool"
	"rbd/wire"
)

// openQueues makes the I/O queues that the controller grants, and the memory for
// their data.
func (c *Controller) openQueues(ctx context.Context) error {
	dw0, err := c.setFeature(ctx, wire.FeatureNumberOfQueues, wire.QueuePairs(uint16(c.opts.Queues)).DW())
	if err != nil {
		return err
	}
	n := min(c.opts.Queues, wire.ParseNumberOfQueues(dw0).Pairs())
	if c.pool, err = bufpool.New(c.pd, c.opts.BufferSize, int(c.info.maxTransfer), dataAccess); err != nil {
		return err
	}
	c.region = regionOf(c.pool)
	queues := make([]*Queue, 0, n)
	for i := 1; i <= n; i++ {
		q, err := c.openQueue(ctx, uint16(i))
		if err != nil {
			return fmt.Errorf("queue %d: %w", i, err)
		}
		queues = append(queues, q)
	}
	c.queues = queues
	return nil
}

func (c *Controller) openQueue(ctx context.Context, id uint16) (*Queue, error) {
	q := c.newQueue(id, c.info.queueSize)
	q.capsules.inCapsule = c.info.inCapsule
	err := c.dial(ctx, q, func(dev verbs.Device) error {
		if dev != c.pd.Device() {
			return fmt.Errorf("the address is reached by device %s now, and by %s before: %w",
				dev.Name(), c.pd.Device().Name(), verbs.ErrInvalid)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	_, err = c.fabricsConnect(ctx, q, c.info.queueSize, c.info.cntlid)
	return q, err
}

// region is where a pool's memory is, so that buffers that it has lent can be
// recognised.
type region struct {
	base, size uint64
	lkey, rkey uint32
}

// regionOf finds the region by borrowing all of a pool that is not in use yet.
func regionOf(p *bufpool.Pool) region {
	var r region
	bufs := make([]bufpool.Buf, p.Size()/p.MaxBlock())
	for i := range bufs {
		b := &bufs[i]
		if !p.TryGet(p.MaxBlock(), b) {
			break
		}
		if i == 0 || b.Addr < r.base {
			r.base = b.Addr
		}
		r.lkey, r.rkey = b.LKey, b.RKey
	}
	for i := range bufs {
		if bufs[i].Data != nil {
			p.Put(&bufs[i])
		}
	}
	r.size = uint64(p.Size())
	return r
}

// find is the buffer that is p, if p lies within the region.
func (r *region) find(p []byte) (bufpool.Buf, bool) {
	addr, n := verbs.AddrOf(p), uint64(len(p))
	if n == 0 || addr < r.base || addr-r.base > r.size || n > r.size-(addr-r.base) {
		return bufpool.Buf{}, false
	}
	return bufpool.Buf{Data: p, Addr: addr, LKey: r.lkey, RKey: r.rkey}, true
}
