package initiator

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"rbd/target"
	"rbd/verbs"
	"rbd/verbs/bufpool"
)

// rerouted is a provider by which an address is reached over one device first, and
// over another one later.
type rerouted struct {
	verbs.Provider
	mu    sync.Mutex
	now   verbs.Provider
	later []verbs.Provider // taken with each resolution
}

func (r *rerouted) ResolveAddr(ctx context.Context, a verbs.Addr) (verbs.CMID, error) {
	r.mu.Lock()
	p := r.now
	if len(r.later) > 0 {
		r.now, r.later = r.later[0], r.later[1:]
	}
	r.mu.Unlock()
	return p.ResolveAddr(ctx, a)
}

func (r *rerouted) set(now verbs.Provider, later ...verbs.Provider) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now, r.later = now, later
}

// Protects disks from the end of an RDMA device that is removed and added again:
// the next connection is made over the new one, and takes along the buffers that
// owners hold and the requests that wait.
func TestReconnectOverAnotherDevice(t *testing.T) {
	w := newAway(t)
	backend := ram(t, 1<<20, 512)
	w.serve(target.Config{}, anyHost, disk1(backend))
	p := &rerouted{now: fastIWARP()}
	c, err := Connect(short(t), p, addrOf(t, w.proxy.Addr()), Options{SubNQN: testNQN, ReconnectDelay: 20 * time.Millisecond, LossTimeout: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(short(t)); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	const size = 64 << 10 // more than goes with a command
	n := namespace(t, c, 1)
	reqs := []*Request{
		{Op: OpWrite, NSID: 1, Length: size},
		{Op: OpWrite, NSID: 1, Offset: size, Length: 512}, // in the capsule
	}
	for i, r := range reqs {
		if err := c.Buffers().Get(short(t), int(r.Length), &r.Buf); err != nil {
			t.Fatal(err)
		}
		defer c.Buffers().Put(&r.Buf)
		copy(r.Buf.Data, bytes.Repeat([]byte{byte(i + 1)}, int(r.Length)))
	}
	before := c.pd.Device()
	w.kill()
	p.set(fastIWARP())
	o := newCollector()
	for i, r := range reqs {
		r.Owner, r.Tag = o, uint64(i)
	}
	c.Queues()[0].Submit(reqs)
	w.serve(target.Config{}, anyHost, disk1(backend))
	o.wait(t, len(reqs))
	for _, r := range reqs {
		if r.Err != nil {
			t.Fatalf("write of %d bytes over the other device: %v", r.Length, r.Err)
		}
	}
	got := make([]byte, size+512)
	if err := n.ReadAt(short(t), got, 0); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got[:size], bytes.Repeat([]byte{1}, size)) || !bytes.Equal(got[size:], bytes.Repeat([]byte{2}, 512)) {
		t.Error("what was written over the other device is not what is read")
	}
	if c.pd.Device() == before {
		t.Error("the memory is where it was")
	}
	// A read into memory of the pool itself, without a copy.
	var own bufpool.Buf
	if err := c.Buffers().Get(short(t), size, &own); err != nil {
		t.Fatal(err)
	}
	defer c.Buffers().Put(&own)
	if err := n.ReadAt(short(t), own.Data, 0); err != nil || !bytes.Equal(own.Data, got[:size]) {
		t.Errorf("read in place: %v", err)
	}
}

// Protects from a connection whose queues are on two devices: their memory is
// registered on one.
func TestQueuesOnTwoDevices(t *testing.T) {
	d := serve(t, target.Config{}, anyHost, ram(t, 1<<20, 512))
	p := &rerouted{}
	p.set(fastIWARP(), fastIWARP())
	_, err := Connect(short(t), p, d.addr, Options{SubNQN: testNQN})
	var failure *ConnectError
	if !errors.As(err, &failure) || failure.Stage != StageQueues || !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("connect: %v", err)
	}
}
