package initiator

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"rbd/target"
	"rbd/target/backend"
	"rbd/verbs/bufpool"
	"rbd/wire"
)

// Protects the data: many goroutines do random operations of all kinds and sizes,
// each in a stretch of its own that it knows the content of, on two namespaces
// with several queues. What they read, and what is on the backends in the end, is
// what they wrote.
func TestDiskIntegrity(t *testing.T) {
	const size, workers, rounds = 4 << 20, 4, 40
	backends := []*backend.RAM{ram(t, size, 512), ram(t, size, 4096)}
	d := serve(t, target.Config{InCapsuleBytes: 4096}, anyHost, backends[0], backends[1])
	c := d.connect(Options{Queues: 3, QueueSize: 16, MaxTransfer: 256 << 10, BufferSize: 1 << 20})
	models := [][]byte{make([]byte, size), make([]byte, size)}
	var wg sync.WaitGroup
	for i, model := range models {
		n := namespace(t, c, uint32(i+1))
		for w := range workers {
			const stretch = size / workers
			wg.Go(func() {
				mine := model[w*stretch : (w+1)*stretch]
				randomOps(t, n, mine, uint64(w*stretch), rand.New(rand.NewPCG(uint64(i), uint64(w))), rounds)
			})
		}
	}
	wg.Wait()
	got := make([]byte, size)
	for i, b := range backends {
		if err := b.ReadAt(got, 0); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, models[i]) {
			t.Errorf("namespace %d: the backend has other data", i+1)
		}
	}
}

// randomOps works on the part of a disk that begins at base and has the content
// model.
func randomOps(t *testing.T, n *Namespace, model []byte, base uint64, rnd *rand.Rand, rounds int) {
	ctx, block := short(t), int(n.BlockSize())
	data := make([]byte, len(model))
	for range rounds {
		// Sizes from one block to several commands, small ones more often.
		blocks := 1 + rnd.IntN(1<<rnd.IntN(len(model)/block/4096*4096/block+8))
		length := min(blocks*block, len(model)/2)
		off := rnd.IntN((len(model)-length)/block+1) * block
		part, p := model[off:off+length], data[:length]
		var err error
		switch op := rnd.IntN(10); {
		case op < 4:
			for i := range p {
				p[i] = byte(rnd.Uint32())
			}
			err = n.WriteAt(ctx, p, base+uint64(off), Flags(rnd.IntN(2))*FUA)
			copy(part, p)
		case op < 5:
			err = n.Trim(ctx, base+uint64(off), uint64(length))
			clear(part)
		case op < 6:
			err = n.WriteZeroes(ctx, base+uint64(off), uint64(length), Flags(rnd.IntN(4)))
			clear(part)
		case op < 7:
			err = n.Flush(ctx)
		default:
			if err = n.ReadAt(ctx, p, base+uint64(off)); err == nil && !bytes.Equal(p, part) {
				t.Errorf("%d bytes at %d are not what was written", length, base+uint64(off))
			}
		}
		if err != nil {
			t.Error(err)
			return
		}
	}
}

// Protects the way without a copy: a slice of a lent buffer is read and written in
// place.
func TestDiskLentBuffer(t *testing.T) {
	d := serve(t, target.Config{}, anyHost, ram(t, 1<<20, 512))
	c := d.connect(Options{Queues: 1})
	n := namespace(t, c, 1)
	var buf bufpool.Buf
	if !c.Buffers().TryGet(64<<10, &buf) {
		t.Fatal("no buffer")
	}
	defer c.Buffers().Put(&buf)
	want := bytes.Repeat([]byte("lent"), 4096)
	copy(buf.Data[512:], want)
	free := c.Buffers().Free()
	if err := n.WriteAt(short(t), buf.Data[512:512+len(want)], 1024, 0); err != nil {
		t.Fatal(err)
	}
	if err := n.ReadAt(short(t), buf.Data[32<<10:32<<10+len(want)], 1024); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(buf.Data[32<<10:32<<10+len(want)], want) {
		t.Error("other data came back")
	}
	if c.Buffers().Free() != free {
		t.Error("another buffer was used")
	}
	if _, ok := c.region.find(want); ok {
		t.Error("memory of the heap taken for a lent buffer")
	}
}

// Protects the errors of ranges, and that nothing of a bad range is done.
func TestDiskRanges(t *testing.T) {
	d := serve(t, target.Config{}, anyHost, ram(t, 1<<20, 4096))
	n := namespace(t, d.connect(Options{Queues: 1}), 1)
	ctx := short(t)
	page := make([]byte, 4096)
	for name, tc := range map[string]struct {
		err, want error
	}{
		"empty read":       {n.ReadAt(ctx, nil, 1), nil},
		"empty trim":       {n.Trim(ctx, 0, 0), nil},
		"unaligned offset": {n.ReadAt(ctx, page, 512), ErrUnaligned},
		"unaligned length": {n.WriteAt(ctx, page[:512], 0, 0), ErrUnaligned},
		"behind the end":   {n.ReadAt(ctx, page, 1<<20), ErrOutOfRange},
		"over the end":     {n.WriteAt(ctx, make([]byte, 2<<20), 0, 0), ErrOutOfRange},
		"trim wraps":       {n.Trim(ctx, 1<<64-4096, 8192), ErrOutOfRange},
	} {
		var r *RangeError
		if !errors.Is(tc.err, tc.want) || tc.want != nil && !errors.As(tc.err, &r) {
			t.Errorf("%s: got %v, want %v", name, tc.err, tc.want)
		}
	}
}

// Protects from deadlock when there are fewer buffers than callers want: they
// wait, and all are served.
func TestDiskPoolExhaustion(t *testing.T) {
	d := serve(t, target.Config{}, anyHost, ram(t, 8<<20, 512))
	c := d.connect(Options{Queues: 2, MaxTransfer: 64 << 10, BufferSize: 128 << 10})
	n := namespace(t, c, 1)
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			p := make([]byte, 1<<20)
			for range 5 {
				if err := n.WriteAt(short(t), p, uint64(w)<<20, 0); err != nil {
					t.Error(err)
				}
				if err := n.ReadAt(short(t), p, uint64(w)<<20); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if free := c.Buffers().Free(); free != c.Buffers().Size() {
		t.Errorf("%d of %d bytes are back", free, c.Buffers().Size())
	}
}

// Protects cancelled calls: they return at once, what was cut off has its buffer
// until the answer, and the connection stays.
func TestDiskCancel(t *testing.T) {
	block := make(chan struct{})
	var blocked atomic.Int32
	b := backend.Intercept(ram(t, 1<<20, 512), func(op backend.Op, _, _ int64) error {
		if op == backend.OpRead {
			blocked.Add(1)
			<-block
		}
		return nil
	})
	d := serve(t, target.Config{}, anyHost, b)
	c := d.connect(Options{Queues: 1, QueueSize: 2}) // one command at a time
	n := namespace(t, c, 1)
	ctx, cancel := context.WithCancel(context.Background())
	errs := make(chan error, 2)
	for range 2 { // one is sent, one waits
		go func() { errs <- n.ReadAt(ctx, make([]byte, 4096), 0) }()
	}
	for blocked.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	for c.Buffers().Free() > c.Buffers().Size()-8192 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	for range 2 {
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	}
	if free := c.Buffers().Free(); free != c.Buffers().Size()-4096 {
		t.Errorf("%d of %d bytes are free, want all but the 4096 that the target may still write to", free, c.Buffers().Size())
	}
	close(block)
	if err := n.Flush(short(t)); err != nil {
		t.Error(err)
	}
	if free := c.Buffers().Free(); free != c.Buffers().Size() {
		t.Errorf("%d of %d bytes are free after the answer", free, c.Buffers().Size())
	}
	if blocked.Load() != 1 {
		t.Error("the read that waited was sent after it was cancelled")
	}
}

// Protects calls that wait for a buffer when the target goes away: they end too.
func TestDiskLostWhileWaitingForBuffer(t *testing.T) {
	d := serve(t, target.Config{}, anyHost, ram(t, 1<<20, 512))
	c := d.connect(Options{Queues: 1, MaxTransfer: 4096, BufferSize: 4096})
	n := namespace(t, c, 1)
	back := lend(t, c) // all there is
	defer back()
	errs := make(chan error, 1)
	go func() { errs <- n.ReadAt(context.Background(), make([]byte, 512), 0) }()
	select {
	case err := <-errs:
		t.Fatalf("did not wait: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	d.kill()
	if err := <-errs; !errors.Is(err, ErrConnectionLost) {
		t.Errorf("got %v", err)
	}
}

// Protects the errors of the target's backend: typed, and the disk goes on.
func TestDiskBackendErrors(t *testing.T) {
	var broken atomic.Bool
	b := backend.Intercept(ram(t, 1<<20, 512), func(op backend.Op, _, _ int64) error {
		if broken.Load() {
			return errors.New("broken")
		}
		return nil
	})
	d := serve(t, target.Config{}, anyHost, b)
	n := namespace(t, d.connect(Options{Queues: 1}), 1)
	broken.Store(true)
	p := make([]byte, 4096)
	for name, err := range map[string]error{
		"read": n.ReadAt(short(t), p, 0), "write": n.WriteAt(short(t), p, 0, 0), "flush": n.Flush(short(t)),
	} {
		var status *StatusError
		var s wire.Status
		if !errors.As(err, &status) || !errors.As(err, &s) || s.OK() {
			t.Errorf("%s: got %v", name, err)
		}
	}
	broken.Store(false)
	if err := n.ReadAt(short(t), p, 0); err != nil {
		t.Error(err)
	}
}

// Protects requests from the end of the target in the midst of I/O: all end,
// soon, with an error that says so, on both interfaces; and so do later ones.
func TestDiskTargetKilled(t *testing.T) {
	d := serve(t, target.Config{}, anyHost, ram(t, 8<<20, 512))
	c := d.connect(Options{Queues: 2})
	n := namespace(t, c, 1)
	var wg sync.WaitGroup
	var running atomic.Int32
	for w := range 8 {
		wg.Go(func() {
			p := make([]byte, 256<<10)
			for i := 0; ; i++ {
				var err error
				if i%2 == 0 {
					err = n.WriteAt(context.Background(), p, uint64(w)<<20, 0)
				} else {
					err = n.ReadAt(context.Background(), p, uint64(w)<<20)
				}
				if i == 3 {
					running.Add(1)
				}
				if err != nil {
					if !errors.Is(err, ErrConnectionLost) {
						t.Errorf("got %v", err)
					}
					return
				}
			}
		})
	}
	for running.Load() < 8 {
		time.Sleep(time.Millisecond)
	}
	begin := time.Now()
	d.kill()
	wg.Wait()
	<-c.Lost()
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	if c.State() != StateLost || c.Err() == nil {
		t.Errorf("state %v, err %v", c.State(), c.Err())
	}
	o := newCollector()
	c.Queues()[0].Submit([]*Request{{Op: OpFlush, NSID: 1, Owner: o}})
	o.wait(t, 1)
	if !errors.Is(o.done[0].Err, ErrConnectionLost) {
		t.Errorf("later request: %v", o.done[0].Err)
	}
	if free := c.Buffers().Free(); free != c.Buffers().Size() {
		t.Errorf("%d of %d bytes are back", free, c.Buffers().Size())
	}
}
