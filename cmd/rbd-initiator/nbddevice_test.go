package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"rbd/initiator"
	"rbd/nbd"
	"rbd/target"
	"rbd/target/backend"
	"rbd/verbs"
	"rbd/verbs/iwarp"
	"rbd/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// batches is an nbd.Owner that hands completed requests to the test.
type batches chan *nbd.Request

func (b batches) Complete(batch []*nbd.Request) {
	for _, r := range batch {
		b <- r
	}
}

// device is an nbdDevice on a target of this process.
func device(t *testing.T) *nbdDevice {
	t.Helper()
	const nqn = "nqn.2026-11.org.example:adapter"
	ram, err := backend.NewRAM(8<<20, 0)
	if err != nil {
		t.Fatal(err)
	}
	tg, err := target.New(target.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tg.AddNamespace(target.Export{NQN: nqn, Backend: ram}); err != nil {
		t.Fatal(err)
	}
	p := iwarp.New()
	l, err := p.Listen(t.Context(), verbs.Addr{Fabric: "iwarp", Host: "127.0.0.1", Port: "0"})
	if err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() { tg.Serve(serving, l, target.PolicyFor(l.Addr(), nil, false)) })
	ctrl, err := initiator.Connect(t.Context(), p, l.Addr(), initiator.Options{SubNQN: nqn, Queues: 1, BufferSize: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := ctrl.Close(ctx); err != nil {
			t.Error(err)
		}
		stop()
		served.Wait()
		if err := tg.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	})
	return &nbdDevice{ctrl: ctrl, ns: ctrl.Namespaces()[0]}
}

// Requests come back once, under their own index, with the data of the disk.
func TestAdapter(t *testing.T) {
	d := device(t)
	done := make(batches, nbd.MaxRequests)
	q, err := d.OpenQueue(done)
	if err != nil {
		t.Fatal(err)
	}
	do := func(reqs ...*nbd.Request) {
		t.Helper()
		q.Submit(reqs)
		seen := map[int]bool{}
		for range reqs {
			r := <-done
			if r.Err != nil || seen[r.Index] {
				t.Errorf("request %d: %v", r.Index, r.Err)
			}
			seen[r.Index] = true
		}
	}
	var write, read nbd.Request
	for _, r := range []*nbd.Request{&write, &read} {
		if !q.TryAlloc(65536, &r.Buf) {
			t.Fatal("no buffer")
		}
		r.Offset, r.Length = 4096, 65536
	}
	copy(write.Buf.Data, bytes.Repeat([]byte("adapter!"), 8192))
	write.Op, write.Index, write.FUA = nbd.OpWrite, 3, true
	read.Op, read.Index = nbd.OpRead, 7
	do(&write)
	do(&read, &nbd.Request{Op: nbd.OpFlush, Index: 200})
	if !bytes.Equal(write.Buf.Data, read.Buf.Data) {
		t.Error("what was read is not what was written")
	}
	do(&nbd.Request{Op: nbd.OpWriteZeroes, Offset: 4096, Length: 65536, Index: 1}, &nbd.Request{Op: nbd.OpTrim, Offset: 1 << 20, Length: 1 << 20, Index: 2})
	do(&read)
	if !bytes.Equal(read.Buf.Data, make([]byte, 65536)) {
		t.Error("zeroes were not written")
	}
	q.Free(&write.Buf)
	q.Free(&read.Buf)
	if err := q.Close(); err != nil {
		t.Error(err)
	}
}

// Connections that give nothing back, because their clients do not read, leave memory
// to others. Each waits for its share, and stops waiting when its context ends.
func TestShareOfMemory(t *testing.T) {
	d := device(t)
	open := func() nbd.Queue {
		t.Helper()
		q, err := d.OpenQueue(make(batches, 1))
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	const piece = 64 << 10
	other := open()
	for range 3 {
		q := open()
		var bufs []nbd.Buffer
		for {
			var b nbd.Buffer
			if !q.TryAlloc(piece, &b) {
				break
			}
			bufs = append(bufs, b)
		}
		var more nbd.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if err := q.Alloc(ctx, piece, &more); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("waiting ended with %v", err)
		}
		cancel()
		if !other.TryAlloc(piece, &more) {
			t.Fatalf("a connection with %d pieces leaves none to others", len(bufs))
		}
		other.Free(&more)
		time.AfterFunc(10*time.Millisecond, func() { q.Free(&bufs[0]) })
		if err := q.Alloc(t.Context(), piece, &more); err != nil {
			t.Fatal(err)
		}
		bufs[0] = more
		t.Cleanup(func() {
			for i := range bufs {
				q.Free(&bufs[i])
			}
			if err := q.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

// Each error reaches an NBD client as the value that tells it most; that of a loss
// does not tell what the last try to reconnect was answered.
func TestNBDError(t *testing.T) {
	lost := func(last error) error {
		return fmt.Errorf("%w: %w; the last try to reconnect: %w", initiator.ErrConnectionLost, verbs.ErrDisconnected, last)
	}
	refused := func(s wire.Status) error {
		return &initiator.ConnectError{Err: &initiator.CommandError{Command: "set features", Status: s}}
	}
	for _, c := range []struct {
		err  error
		want error
	}{
		{nil, nil},
		{initiator.ErrReadOnly, nbd.ErrPermission},
		{initiator.ErrNotSupported, nbd.ErrNotSupported},
		{initiator.ErrClosed, nbd.ErrShutdown},
		{initiator.ErrConnectionLost, nbd.ErrIO},
		{lost(refused(wire.StatusInvalidField.WithDNR())), nbd.ErrIO},
		{lost(refused(wire.StatusCapacityExceeded)), nbd.ErrIO},
		{lost(refused(wire.StatusNamespaceWriteProtected)), nbd.ErrIO},
		{lost(initiator.ErrNotSupported), nbd.ErrIO},
		{&initiator.RangeError{Err: initiator.ErrOutOfRange}, nbd.ErrInvalid},
		{&initiator.StatusError{Status: wire.StatusLBAOutOfRange.WithDNR()}, nbd.ErrInvalid},
		{&initiator.StatusError{Status: wire.StatusCapacityExceeded}, nbd.ErrNoSpace},
		{&initiator.StatusError{Status: wire.StatusNamespaceWriteProtected.WithDNR()}, nbd.ErrPermission},
		{&initiator.StatusError{Status: wire.StatusInternalError}, nbd.ErrIO},
	} {
		if got := nbdError(c.err); !errors.Is(got, c.want) || (got == nil) != (c.want == nil) {
			t.Errorf("%v becomes %v, want %v", c.err, got, c.want)
		}
	}
}
