package ibv

import (
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"
)

// lifeline is what a device has to do with its end. Drivers without a way to take
// a device from programs, such as rxe and siw, let its removal wait until no
// program has it open: it must be given up then, to the last object.
type lifeline struct {
	// mu is held for reading while an object of the device is made or freed, and for
	// writing when the device ends: then all that is left is freed at once.
	mu      sync.RWMutex
	removed bool
	cmdFD   int
	asyncFD int

	objects sync.Mutex // of what follows
	owned   map[nativeOwner]struct{}
	// sentinel is an rdma_cm_id that is bound to the device and does nothing: the
	// connection manager tells it of the removal.
	sentinel *cmid
}

// nativeOwner has an object of the device, and can free it before its time.
type nativeOwner interface {
	// giveUp frees the object; what belongs to it has been given up before.
	giveUp()
	// level says in which order: the lowest first.
	level() int
}

func (l *lifeline) init(info deviceInfo) {
	l.cmdFD, l.asyncFD, l.owned = info.cmdFD, info.asyncFD, map[nativeOwner]struct{}{}
}

func (l *lifeline) add(o nativeOwner) {
	l.objects.Lock()
	defer l.objects.Unlock()
	l.owned[o] = struct{}{}
}

func (l *lifeline) drop(o nativeOwner) {
	l.objects.Lock()
	defer l.objects.Unlock()
	delete(l.owned, o)
}

// keepSentinel binds an identifier to one of the device's addresses. Without one,
// the device can't be removed while nothing else is bound to it.
func (l *lifeline) keepSentinel(d *device) {
	for _, a := range addresses(d.p.system.ports(d.name), interfaceAddresses) {
		s, err := newSockaddr(netip.AddrPortFrom(a, 0))
		if err != nil {
			continue
		}
		c := d.p.newCMID()
		if c.id, err = d.lib.createID(d.p.channel, c.handle); err != nil {
			return
		}
		if d.lib.bind(c.id, s) != nil || d.lib.queryID(c.id).context != d.context {
			_ = d.lib.destroyID(c.id)
			continue
		}
		c.dev, l.sentinel = d, c
		d.p.sinks[c.handle] = c // the caller holds the provider's mutex
		return
	}
}

// removed says that the system has taken the device away. Nothing of it works then.
func (d *device) removed() bool {
	d.life.mu.RLock()
	defer d.life.mu.RUnlock()
	return d.life.removed
}

// with makes or frees an object of the device; errDeviceRemoved if that is gone.
func (d *device) with(f func() error) error {
	d.life.mu.RLock()
	defer d.life.mu.RUnlock()
	if d.life.removed {
		return errDeviceRemoved
	}
	return f()
}

// remove ends all connections of a device that the system takes away, frees all
// its objects, and closes it. Their owners see them closed.
func (d *device) remove() {
	d.life.mu.Lock()
	already := d.life.removed
	d.life.removed = true
	d.life.mu.Unlock()
	if already {
		return
	}
	d.p.forget(d)
	for _, q := range *d.qps.Load() {
		if q != nil {
			q.id.end(errDeviceRemoved)
			q.abandon()
		}
	}
	d.life.objects.Lock()
	owned := d.life.owned
	d.life.owned = nil
	d.life.objects.Unlock()
	for level := range levels {
		for o := range owned {
			if o.level() == level {
				o.giveUp()
			}
		}
	}
	if c := d.life.sentinel; c != nil {
		_ = c.Destroy()
	}
	_ = d.async.close()
	// librdmacm keeps the context: its descriptors are made to lead nowhere.
	if null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
		_ = unix.Dup3(null, d.life.cmdFD, unix.O_CLOEXEC)
		_ = unix.Dup3(null, d.life.asyncFD, unix.O_CLOEXEC)
		_ = unix.Close(null)
	}
}

// The levels of objects.
const (
	levelCQ = iota
	levelMR
	levelPD
	levels
)
