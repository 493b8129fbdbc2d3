package ibv

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"rbd/verbs"
)

// Name is the scheme of this provider's addresses.
const Name = "rdma"

// Provider reaches the RDMA devices of this machine through rdma-core; it
// implements [verbs.Provider].
type Provider struct {
	load    func() (library, error)
	system  system
	memlock memlock
	handles atomic.Uint64

	opening sync.Mutex // of open
	lib     library    // nil until open has succeeded
	channel uintptr    // of events
	// taking is held for reading while an event is taken, which may change a QP.
	taking sync.RWMutex

	mu      sync.Mutex
	devices map[uintptr]*device // by context
	gone    map[uintptr]bool    // contexts of devices that were removed
	sinks   map[uint64]eventSink
}

// eventSink is a CMID or a listener.
type eventSink interface{ handleEvent(cmEvent) }

// New makes a provider. It touches neither libraries nor devices before it is
// used.
func New() *Provider {
	return &Provider{load: loadLibrary, system: defaultSystem, memlock: newMemlock(),
		devices: map[uintptr]*device{}, gone: map[uintptr]bool{}, sinks: map[uint64]eventSink{}}
}

// Name is "rdma".
func (p *Provider) Name() string { return Name }

// nextHandle is a number that the libraries give back with events. None is used
// twice, so that a late event finds nothing.
func (p *Provider) nextHandle() uint64 { return p.handles.Add(1) }

// open loads rdma-core and starts to take events, unless that is done. The error
// says what is missing and the remedy.
func (p *Provider) open() error {
	p.opening.Lock()
	defer p.opening.Unlock()
	if p.lib != nil {
		return nil
	}
	lib, err := p.load()
	if err != nil {
		return err
	}
	if err := p.system.check(); err != nil {
		return err
	}
	channel, fd, err := lib.createEventChannel()
	if err != nil {
		return fmt.Errorf("open the RDMA connection manager: %w", err)
	}
	events, err := newEventFD(fd, "rdma_cm events")
	if err != nil {
		return fmt.Errorf("RDMA connection manager events: %w", err)
	}
	p.lib, p.channel = lib, channel
	go p.dispatch(events)
	_ = p.watchRemovals() // without it, devices that are removed are noticed less well
	return nil
}

// dispatch hands the events of the connection manager to whom they belong, as
// long as the process lives.
func (p *Provider) dispatch(events *eventFD) {
	var e cmEvent
	take := func(uintptr) bool {
		p.taking.RLock()
		defer p.taking.RUnlock()
		return p.lib.cmEvent(p.channel, &e) == nil
	}
	for events.wait(take) == nil {
		p.mu.Lock()
		sink := p.sinks[e.handle]
		p.mu.Unlock()
		switch {
		case sink != nil:
			sink.handleEvent(e)
		case e.event == cmConnectRequest: // its listener is closed
			_ = p.lib.destroyID(e.id)
		}
	}
}

func (p *Provider) register(handle uint64, s eventSink) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sinks[handle] = s
}

// unregister says whether the handle was registered.
func (p *Provider) unregister(handle uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.sinks[handle]
	delete(p.sinks, handle)
	return ok
}

// device is the one of a context, made when it is first seen.
func (p *Provider) device(context uintptr) (*device, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := p.devices[context]; d != nil {
		return d, nil
	}
	if p.gone[context] {
		return nil, errDeviceRemoved
	}
	d, err := newDevice(p, context)
	if err != nil {
		return nil, err
	}
	p.devices[context] = d
	return d, nil
}

// forget takes a removed device from the list.
func (p *Provider) forget(d *device) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.devices, d.context)
	p.gone[d.context] = true
}

// Devices lists the devices that rdma-core can use, by name.
func (p *Provider) Devices() ([]verbs.Device, error) {
	all, err := p.list()
	if len(all) == 0 && err == nil {
		err = p.system.noDriver()
	}
	devices := make([]verbs.Device, len(all))
	for i, d := range all {
		devices[i] = d
	}
	if len(all) > 0 {
		err = nil
	}
	return devices, err
}

func (p *Provider) list() ([]*device, error) {
	if err := p.open(); err != nil {
		return nil, err
	}
	contexts, err := p.lib.devices()
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	var all []*device
	var errs []error
	for _, c := range contexts {
		d, err := p.device(c)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b *device) int { return cmp.Compare(a.name, b.name) })
	return all, errors.Join(errs...)
}

var _ verbs.Provider = (*Provider)(nil)
