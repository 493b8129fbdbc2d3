package ibv

import "fmt"

// siwVendor is what Soft-iWARP has as vendor_id in ibv_device_attr.
const siwVendor = 0x626d74

// occupyingCQE is a number of completions that need more than 0x91 pages (32 bytes
// each, rounded up to a power of two by the driver).
const occupyingCQE = 1<<14 + 1

// occupyingCQ is a completion queue that is there for its place in the file.
type occupyingCQ struct {
	lib    library
	native uintptr
}

func (o *occupyingCQ) giveUp()  { _ = o.lib.destroyCQ(o.native) }
func (*occupyingCQ) level() int { return levelCQ }

// occupyInvalidKey keeps a new context of siw from failing without a reason. Its
// kernel side gives each queue the first free pages of the context's file to be
// mapped from; its library takes the offset 0x90000 for "no such queue"
// (SIW_INVAL_UOBJ_KEY, rdma/siw-abi.h), so that the queue that comes to lie there can
// not be made, time after time: it is in use from about 70 queue pairs on. A
// completion queue that begins at the start of the file, before all others, and is
// longer than that is never taken for it, and nothing else gets the place.
func (d *device) occupyInvalidKey() error {
	cq, err := d.lib.createCQ(d.context, occupyingCQE, 0, 0)
	if err != nil {
		return fmt.Errorf("completion queue of %d entries: %w", occupyingCQE, err)
	}
	d.life.add(&occupyingCQ{lib: d.lib, native: cq})
	return nil
}
