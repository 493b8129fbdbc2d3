package target

import (
	"errors"
	"fmt"

	"rbd/verbs"
	"rbd/verbs/bufpool"
)

// deviceResources is what all queues on one RDMA device share.
type deviceResources struct {
	pd   verbs.PD
	pool *bufpool.Pool
}

// device makes the resources of a device, or finds those that are there.
func (t *Target) device(dev verbs.Device) (*deviceResources, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if d := t.devices[dev]; d != nil {
		return d, nil
	}
	if t.stopping {
		return nil, ErrShutdown
	}
	pd, err := dev.AllocPD()
	if err != nil {
		return nil, fmt.Errorf("device %s: %w", dev.Name(), err)
	}
	// Local write only: no peer can reach into these buffers.
	pool, err := bufpool.New(pd, t.cfg.BufferBytes, maxTransfer, verbs.AccessLocalWrite)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("device %s: %w", dev.Name(), err), pd.Dealloc())
	}
	d := &deviceResources{pd: pd, pool: pool}
	t.devices[dev] = d
	return d, nil
}

func (d *deviceResources) close() error { return errors.Join(d.pool.Close(), d.pd.Dealloc()) }
