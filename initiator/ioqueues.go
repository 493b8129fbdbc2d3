package initiator

import (
	"context"
	"fmt"

	"rbd/verbs"
	"rbd/verbs/bufpool"
	"rbd/wire"
)

// openQueues makes connections for the I/O queues that the controller grants. The
// first time, it makes the queues too, and the memory for their data.
func (a *association) openQueues(ctx context.Context) error {
	c := a.c
	dw0, err := a.setFeature(ctx, wire.FeatureNumberOfQueues, wire.QueuePairs(uint16(c.opts.Queues)).DW())
	if err != nil {
		return err
	}
	n := min(c.opts.Queues, wire.ParseNumberOfQueues(dw0).Pairs())
	if c.pool == nil {
		if c.pool, err = bufpool.New(c.pd, c.opts.BufferSize, int(a.info.maxTransfer), dataAccess); err != nil {
			return err
		}
		c.region = regionOf(c.pool)
		for i := 1; i <= n; i++ {
			c.queues = append(c.queues, c.newQueue(uint16(i), a.info.queueSize))
		}
	}
	n = min(n, len(c.queues))
	for _, q := range c.queues[:n] {
		if err := a.openQueue(ctx, q); err != nil {
			return fmt.Errorf("queue %d: %w", q.id, err)
		}
	}
	a.granted = n
	return nil
}

func (a *association) openQueue(ctx context.Context, q *Queue) error {
	err := a.dial(ctx, q, connParams{slots: a.info.queueSize - 1, inCapsule: a.info.inCapsule})
	if err != nil {
		return err
	}
	_, err = a.fabricsConnect(ctx, q, a.info.queueSize, a.info.cntlid)
	return err
}

// region is where a pool's memory is, so that buffers that it has lent can be
// recognised.
type region struct {
	base, size uint64
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
	return bufpool.Buf{Data: p, Addr: addr}, true // the queue knows the keys
}
