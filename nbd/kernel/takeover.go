package kernel

import (
	"fmt"

	"rbd/nbd"
)

// TakeOver goes on with a device that a dead process has left behind: the kernel
// gets new sockets in place of the dead ones, and sends again what was not answered
// when its time is over (Options.RequestTimeout of the dead process). The device
// must have the identifier of the options, which the kernel checks too.
func (h *Host) TakeOver(server *nbd.Server, export nbd.Export, d Device, opts Options) (*Attachment, error) {
	info := export.Device.Info()
	if block := max(info.MinBlock, 512); block != d.BlockSize {
		return nil, fmt.Errorf("take over %s: it has blocks of %d bytes, and the disk now has %d", d.Path(), d.BlockSize, block)
	}
	if info.ReadOnly && !d.ReadOnly {
		return nil, fmt.Errorf("take over %s: it is writable, and the disk is read-only now", d.Path())
	}
	a := h.newAttachment(server, export, opts)
	a.index.Store(int32(d.Index))
	a.size.Store(d.Size)
	pairs, err := newPairs(opts.Connections)
	if err != nil {
		return nil, err
	}
	a.serveAll(pairs)
	err = h.control.reconfigure(&config{
		index: d.Index, timeout: opts.RequestTimeout, deadConn: opts.DeadConnTimeout, identifier: opts.Identifier, sockets: kernelEnds(pairs),
	})
	if err != nil {
		a.end(err)
		closeKernel(pairs)
		<-a.done
		return nil, fmt.Errorf("take over %s: %w", d.Path(), permission(err))
	}
	closeKernel(pairs)
	h.tune(d, info.MaxTransfer, info.MaxTrim)
	if err := a.Resize(info.Size); err != nil {
		h.log.Warn("the device keeps its size", "device", d.Path(), "err", err)
	}
	return a, nil
}
