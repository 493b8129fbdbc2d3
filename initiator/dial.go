package initiator

import (
	"context"
	"errors"
	"fmt"

	"rbd/verbs"
	"rbd/verbs/bufpool"
)

// dial makes a queue's RDMA connection.
func (a *association) dial(ctx context.Context, q *Queue, p connParams) error {
	c := a.c
	ctx, cancel := context.WithTimeoutCause(ctx, c.opts.ConnectTimeout,
		fmt.Errorf("no RDMA connection after %v: %w", c.opts.ConnectTimeout, ErrTimeout))
	defer cancel()
	id, err := c.provider.ResolveAddr(ctx, c.addr)
	if err == nil {
		if err = a.memoryOn(id.Device(), q, &p); err == nil {
			p.cntlid, p.fail = a.info.cntlid, a.fail
			err = q.open(ctx, id, p)
		} else {
			_ = id.Destroy()
		}
	}
	if err == nil {
		if err = a.attach(q); err == nil {
			return nil
		}
		q.cut(err)
		_ = q.end(err) // the first error is the one that matters
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = context.Cause(ctx)
	}
	return err
}

// memoryOn gives the connection of q, which is about to be made on dev, its
// protection domain and the keys of the data. What all connections share is made
// by the first one. It stays over reconnects, because the buffers that owners hold
// are there; but when another association finds another device, since the first was
// removed and added again or the route has changed, it moves there. No connection
// is left by which the first could use it.
func (a *association) memoryOn(dev verbs.Device, q *Queue, p *connParams) error {
	c := a.c
	var err error
	switch {
	case c.pd == nil:
		err = c.makeMemory(dev)
	case c.pd.Device() == dev:
	case q == a.admin:
		err = c.moveMemory(dev)
	default:
		err = fmt.Errorf("the address is reached by device %s now, and by %s a moment before: %w", dev.Name(), c.pd.Device().Name(), verbs.ErrInvalid)
	}
	if err != nil {
		return err
	}
	p.pd = c.pd
	if q != a.admin {
		p.lkey, p.rkey = c.pool.Keys()
	}
	return nil
}

// makeMemory is for the first connection of all.
func (c *Controller) makeMemory(dev verbs.Device) (err error) {
	if c.pd, err = dev.AllocPD(); err != nil {
		return fmt.Errorf("allocate protection domain: %w", err)
	}
	c.adminPool, err = bufpool.New(c.pd, adminBuffers, adminTransfer, dataAccess)
	return err
}

// moveMemory registers what all connections share on another device.
func (c *Controller) moveMemory(dev verbs.Device) error {
	pd, err := dev.AllocPD()
	if err != nil {
		return fmt.Errorf("allocate protection domain: %w", err)
	}
	regions, err := bufpool.Move(pd, c.adminPool, c.pool)
	if err != nil {
		return errors.Join(err, pd.Dealloc())
	}
	var errs []error
	for _, mr := range regions {
		errs = append(errs, mr.Dereg())
	}
	log := c.opts.Logger.With("nqn", c.opts.SubNQN)
	if err := errors.Join(append(errs, c.pd.Dealloc())...); err != nil {
		log.Error("free what was registered on a device", "device", c.pd.Device().Name(), "err", err)
	}
	log.Info("memory is registered anew", "device", dev.Name())
	c.pd = pd
	return nil
}
