package initiator

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"rbd/target"
	"rbd/target/backend"
	"rbd/wire"
)

// register is an operation on one block, which holds one number.
type register struct {
	block uint64
	write bool
	value uint64
}

// registers is the model of a disk: each block is a register by itself. The output
// of a read is its value.
var registers = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		by := map[uint64][]porcupine.Operation{}
		for _, op := range history {
			b := op.Input.(register).block
			by[b] = append(by[b], op)
		}
		var parts [][]porcupine.Operation
		for _, p := range by {
			parts = append(parts, p)
		}
		return parts
	},
	Init: func() any { return uint64(0) },
	Step: func(state, input, output any) (bool, any) {
		in := input.(register)
		if in.write {
			return true, in.value
		}
		return output.(uint64) == state.(uint64), state
	},
	DescribeOperation: func(input, output any) string {
		in := input.(register)
		if in.write {
			return fmt.Sprintf("write %d to %d", in.value, in.block)
		}
		return fmt.Sprintf("read %d: %v", in.block, output)
	},
}

// history collects operations.
type history struct {
	begin time.Time
	mu    sync.Mutex
	ops   []porcupine.Operation
}

// add notes an operation.
func (h *history) add(client int, in register, call, end time.Duration, out any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ops = append(h.ops, porcupine.Operation{
		ClientId: client, Input: in, Call: int64(call), Output: out, Return: int64(end),
	})
}

// slowDisk takes its time for writes, as long as delay says. Each operation is
// atomic, and comes into effect at the end of its time.
type slowDisk struct {
	kept
	mu    *sync.Mutex
	delay func() time.Duration
}

func (d slowDisk) ReadAt(p []byte, off int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kept.ReadAt(p, off)
}

func (d slowDisk) WriteAt(p []byte, off int64, flags backend.Flags) error {
	time.Sleep(d.delay())
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kept.WriteAt(p, off, flags)
}

func (slowDisk) TryReadAt([]byte, int64) error                 { return backend.ErrWouldBlock }
func (slowDisk) TryWriteAt([]byte, int64, backend.Flags) error { return backend.ErrWouldBlock }

func (d slowDisk) Attributes() backend.Attributes {
	attr := d.kept.Attributes()
	attr.NonBlocking = false
	return attr
}

// Protects data from the past: a write from before a loss never lands after one from
// after it. The target's disk takes its time for each write; connections are reset,
// left half open, and frozen with what is on the way delivered late; targets are
// replaced. What all clients saw must be what a disk can do that executes one
// operation after the other.
//
// No client writes to a block while another does, as file systems and page caches
// keep it too, nor gives up a write: when several writes to one block are out and
// sent again, a reader may see one of them come into effect twice, with another one
// in between.
func TestReconnectLinearizable(t *testing.T) {
	const (
		blocks, blockSize = 3, 512
		clients           = 6
	)
	a := newAway(t)
	var rngMu sync.Mutex
	rng := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	random := func(n int) int {
		rngMu.Lock()
		defer rngMu.Unlock()
		return rng.IntN(n)
	}
	slow := target.Export{NSID: 1, Backend: slowDisk{kept{ram(t, blocks*blockSize, blockSize)}, new(sync.Mutex), func() time.Duration {
		return time.Duration(max(0, random(250)-50)) * time.Millisecond
	}}}
	host := Host{NQN: "nqn.2020-01.org.example:host", ID: wire.UUID{1}}
	a.serve(target.Config{}, anyHost, slow)
	c := a.connect(Options{Queues: 2, QueueSize: 8, Host: host, KeepAlive: time.Second, LossTimeout: time.Minute})
	n := namespace(t, c, 1)

	h := &history{begin: time.Now()}
	var writing [blocks]sync.Mutex
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for client := range clients {
		wg.Go(func() {
			p := make([]byte, blockSize)
			for i := uint64(1); ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				in := register{block: uint64(random(blocks)), write: random(2) == 0}
				if in.write && !writing[in.block].TryLock() {
					in.write = false
				}
				unlock := func() {}
				if in.write {
					unlock = writing[in.block].Unlock
				}
				ctx, cancel := context.WithCancel(context.Background())
				if !in.write && random(20) == 0 { // some readers do not wait for ever
					time.AfterFunc(time.Duration(10+random(400))*time.Millisecond, cancel)
				}
				call := time.Since(h.begin)
				var err error
				if in.write {
					in.value = i<<8 | uint64(client)
					for at := 0; at < blockSize; at += 8 {
						binary.LittleEndian.PutUint64(p[at:], in.value)
					}
					err = n.WriteAt(ctx, p, in.block*blockSize, 0)
				} else if err = n.ReadAt(ctx, p, in.block*blockSize); err == nil {
					in.value = 0
					for at := 8; at < blockSize; at += 8 {
						if [8]byte(p[at:]) != [8]byte(p) {
							t.Errorf("block %d is torn", in.block)
						}
					}
				}
				end, gone := time.Since(h.begin), ctx.Err() != nil
				cancel()
				switch unlock(); {
				case err == nil && in.write:
					h.add(client, in, call, end, nil)
				case err == nil:
					h.add(client, in, call, end, binary.LittleEndian.Uint64(p))
				case !gone:
					t.Errorf("%+v: %v", in, err)
					return
				}
			}
		})
	}
	reset := a.proxy.Cut
	another := func() { a.serve(target.Config{}, anyHost, slow) }
	frozen := func() {
		a.proxy.Freeze()
		time.Sleep(2200 * time.Millisecond) // longer than this side's patience
		a.proxy.Thaw()
	}
	for _, fault := range []func(){reset, reset, another, reset, a.proxy.HalfOpen, reset, a.proxy.HalfOpen, reset, frozen, reset, reset} {
		time.Sleep(time.Duration(40+random(60)) * time.Millisecond)
		before := c.association()
		fault()
		for deadline := time.Now().Add(30 * time.Second); c.association() == before; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("does not reconnect: %v, %v", c.State(), c.Err())
			}
		}
	}
	time.Sleep(50 * time.Millisecond)
	close(stop)
	wg.Wait()
	result, info := porcupine.CheckOperationsVerbose(registers, h.ops, time.Minute)
	t.Logf("%d operations: %v", len(h.ops), result)
	if result != porcupine.Ok {
		file := t.TempDir() + "/history.html"
		if err := porcupine.VisualizePath(registers, info, file); err != nil {
			t.Error(err)
		}
		t.Errorf("what the clients saw is not what a disk does: %v, see %s", result, file)
	}
}
