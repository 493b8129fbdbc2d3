package ibv

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"rbd/verbs"
)

// What the provider takes at most of what devices offer.
const (
	maxQPWR = 16384
	maxSGE  = 32
	maxCQE  = 1 << 17
	// maxReads keeps the read resources within the eight bits of rdma_conn_param,
	// whose value 255 means something else.
	maxReads = 128
	// privateDataIB is what is left of the private data of an InfiniBand connection
	// request (92 bytes) behind the header that RDMA CM has for IP addresses.
	// Replies and rejects could carry more.
	privateDataIB = 56
	// privateDataIWARP fits the eight-bit count of rdma_conn_param together with
	// the words for the read resources.
	privateDataIWARP = 251
)

// guardTime is how often QPs are looked after whose sends don't complete.
const guardTime = time.Second

// device is a context that librdmacm has opened.
type device struct {
	p       *Provider
	lib     library
	context uintptr
	name    string
	iwarp   bool
	attr    verbs.DeviceAttr
	file    verbsFile
	async   *eventFD
	life    lifeline

	// qps is the table of QPs by the low bits of their keys. It is replaced, never
	// changed.
	qps atomic.Pointer[[]*qp]

	mu         sync.Mutex // of what follows, and of changes to qps
	generation uint32
	guarding   bool
}

// newDevice asks the device for its limits.
func newDevice(p *Provider, context uintptr) (*device, error) {
	info, err := p.lib.queryDevice(context)
	if err != nil {
		return nil, fmt.Errorf("query device: %w", err)
	}
	d := &device{p: p, lib: p.lib, context: context, name: info.name, iwarp: info.iwarp, file: p.system.verbsFile(info.name)}
	d.qps.Store(new([]*qp))
	d.attr = verbs.DeviceAttr{
		MaxQPWR: min(info.maxQPWR, maxQPWR), MaxSGE: min(info.maxSGE, maxSGE), MaxSGERead: min(max(info.maxSGERead, 1), info.maxSGE, maxSGE),
		MaxCQE: min(info.maxCQE, maxCQE), MaxMR: info.maxMR, MaxMRSize: info.maxMRSize,
		MaxQPRdAtom: min(info.maxQPRdAtom, maxReads), MaxQPInitRdAtom: min(info.maxQPInitRdAtom, maxReads),
		MaxPrivateData: privateDataIB, SendWithInv: info.sendWithInv,
	}
	if d.iwarp {
		d.attr.MaxPrivateData = privateDataIWARP
	}
	if err := d.probe(); err != nil {
		return nil, fmt.Errorf("device %s: %w", d.name, err)
	}
	if d.async, err = newEventFD(info.asyncFD, d.name+" events"); err != nil {
		return nil, fmt.Errorf("device %s: asynchronous events: %w", d.name, err)
	}
	d.life.init(info)
	if info.vendorID == siwVendor {
		if err := d.occupyInvalidKey(); err != nil {
			return nil, errors.Join(fmt.Errorf("device %s: %w", d.name, err), d.async.close())
		}
	}
	go d.watch()
	d.life.keepSentinel(d)
	return d, nil
}

// probe finds by trial what no query tells: how much inline data a QP takes, and
// how many requests of so many SGEs.
func (d *device) probe() error {
	pd, err := d.lib.allocPD(d.context)
	if err != nil {
		return fmt.Errorf("protection domain: %w", err)
	}
	cq, err := d.lib.createCQ(d.context, 1, 0, 0)
	if err != nil {
		return errors.Join(fmt.Errorf("completion queue: %w", err), d.lib.deallocPD(pd))
	}
	err = d.probeQP(pd, cq)
	return errors.Join(err, d.lib.destroyCQ(cq), d.lib.deallocPD(pd))
}

func (d *device) probeQP(pd, cq uintptr) (err error) {
	a := &d.attr
	try := qpAttr{sendCQ: cq, recvCQ: cq}
	for ; a.MaxQPWR >= 128; a.MaxQPWR /= 2 {
		try.cap = verbs.QPCap{MaxSendWR: a.MaxQPWR, MaxRecvWR: a.MaxQPWR, MaxSendSGE: a.MaxSGE, MaxRecvSGE: a.MaxSGE}
		if _, err = d.lib.tryQP(pd, try); err == nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("queue pair: %w", err)
	}
	for try.cap.MaxInlineData = 512; try.cap.MaxInlineData >= 32; try.cap.MaxInlineData /= 2 {
		if n, err := d.lib.tryQP(pd, try); err == nil {
			a.MaxInline = min(n, try.cap.MaxInlineData)
			break
		}
	}
	return nil
}

func (d *device) Name() string           { return d.name }
func (d *device) Attr() verbs.DeviceAttr { return d.attr }

// explain adds what is known of the device to an error.
func (d *device) explain(what string, err error) error {
	if d.removed() {
		err = fmt.Errorf("%w (%w)", errDeviceRemoved, err)
	}
	return wrap(fmt.Sprintf("device %s: %s", d.name, what), err)
}

// watch takes the asynchronous events of the device until it is removed. A device
// whose events can't be read is lost: it would stay ready to be read for ever.
func (d *device) watch() {
	var event asyncEvent
	var handle uint64
	take := func(uintptr) bool {
		e, h, err := d.lib.asyncEvent(d.context)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return false
		case err != nil:
			e, h = eventDeviceFatal, 0
		}
		event, handle = e, h
		return true
	}
	for !d.removed() {
		if d.async.wait(take) != nil {
			return
		}
		d.handleEvent(event, handle)
	}
}

func (d *device) handleEvent(event asyncEvent, handle uint64) {
	switch event {
	case eventDeviceFatal:
		d.remove()
	case eventCQErr:
		d.overrun(handle)
	case eventQPFatal, eventQPReqErr, eventQPAccessErr:
		if q := d.qp(uint32(handle)); q != nil {
			q.id.fail(errQPError)
		}
	case eventCommEst:
		if q := d.qp(uint32(handle)); q != nil {
			q.id.early()
		}
	}
}

// overrun ends the QPs of a CQ that had no room for a completion.
func (d *device) overrun(handle uint64) {
	for _, q := range *d.qps.Load() {
		if q != nil && (q.sendCQ.handle == handle || q.recvCQ.handle == handle) {
			q.id.fail(errOverrun)
		}
	}
}

// A QP's key is its place in the table and how often a key was given.
const (
	placeBits = 20
	placeMask = 1<<placeBits - 1
)

// addQP gives the QP a key and puts it into the table.
func (d *device) addQP(q *qp) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	old := *d.qps.Load()
	place := 0
	for place < len(old) && old[place] != nil {
		place++
	}
	if place > placeMask {
		return fmt.Errorf("%d queue pairs: %w", place, verbs.ErrNoMemory)
	}
	table := append([]*qp(nil), old...)
	if place == len(table) {
		table = append(table, nil)
	}
	d.generation++
	q.key = d.generation<<placeBits | uint32(place)
	table[place] = q
	d.qps.Store(&table)
	if !d.guarding {
		d.guarding = true
		time.AfterFunc(guardTime, d.guard)
	}
	return nil
}

// guard looks now and then, as long as there are QPs, for one that the device has
// put into ERR without an event: programs that don't poll the send queue while
// all is well would not learn of it.
func (d *device) guard() {
	found := false
	for _, q := range *d.qps.Load() {
		if q != nil {
			found = true
			q.guard()
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.guarding = found; found {
		time.AfterFunc(guardTime, d.guard)
	}
}

func (d *device) removeQP(q *qp) {
	d.mu.Lock()
	defer d.mu.Unlock()
	table := append([]*qp(nil), *d.qps.Load()...)
	if place := int(q.key & placeMask); place < len(table) && table[place] == q {
		table[place] = nil
		d.qps.Store(&table)
	}
}

// qp finds a QP by its key; nil when it is gone.
func (d *device) qp(key uint32) *qp {
	table := *d.qps.Load()
	if place := int(key & placeMask); place < len(table) && table[place] != nil && table[place].key == key {
		return table[place]
	}
	return nil
}

// complete adds the completions that follow from the device's record. The mutex of
// the CQ is held.
func (d *device) complete(r *wcRecord, batch []verbs.WC) []verbs.WC {
	if q := d.qp(uint32(r.id >> 32)); q != nil {
		return q.complete(r, batch)
	}
	return batch
}
