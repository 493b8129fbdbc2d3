package bench

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"rbd/initiator"
	"rbd/target"
	"rbd/target/backend"
	"rbd/verbs"
	"rbd/verbs/iwarp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const nqn = "nqn.2026-11.io.rbd:bench"

// connect makes a target with one namespace on b and a controller of it.
func connect(t *testing.T, b backend.Backend) *initiator.Controller {
	t.Helper()
	tg, err := target.New(target.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tg.AddNamespace(target.Export{NQN: nqn, Backend: b}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := iwarp.New()
	l, err := p.Listen(ctx, verbs.Addr{Fabric: "iwarp", Host: "127.0.0.1", Port: "0"})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- tg.Serve(ctx, l, target.AccessPolicy{AnyHost: true}) }()
	c, err := initiator.Connect(ctx, p, l.Addr(), initiator.Options{SubNQN: nqn, Queues: 2, QueueSize: 16})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close(ctx)
		cancel()
		tg.Shutdown(context.Background())
		l.Close()
		<-served
	})
	return c
}

func ram(t *testing.T) backend.Backend {
	t.Helper()
	b, err := backend.NewRAM(4<<20, 512)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Protects the measurement: every mode does its kind of requests for its time,
// counts them, and verifies what it wrote.
func TestRun(t *testing.T) {
	c := connect(t, ram(t))
	for m := Read; m <= RandRW; m++ {
		t.Run(m.String(), func(t *testing.T) {
			cfg := Config{Mode: m, BlockSize: 4096, Depth: 7, Runtime: 100 * time.Millisecond, Verify: m.Writes(), Seed: 3}
			r, err := Run(context.Background(), c, 1, cfg)
			if err != nil {
				t.Fatal(err)
			}
			if (r.Reads > 0) != (m != Write && m != RandWrite) || (r.Writes > 0) != m.Writes() {
				t.Errorf("%d reads and %d writes", r.Reads, r.Writes)
			}
			if r.Bytes != (r.Reads+r.Writes)*4096 || r.Elapsed < cfg.Runtime || r.Elapsed > 5*time.Second {
				t.Errorf("%d bytes in %v", r.Bytes, r.Elapsed)
			}
			if l := r.Latency; l.Min <= 0 || l.Min > l.P50 || l.P50 > l.P99 || l.P99 > l.P999 || l.P999 > l.Max {
				t.Errorf("latency %+v", l)
			}
			if r.VerifyDone != m.Writes() || (r.Verified > 0) != m.Writes() || r.Verified > 1024 {
				t.Errorf("%d blocks verified", r.Verified)
			}
			t.Logf("%.0f IOPS, %+v", r.IOPS, r.Latency)
		})
	}
	if free := c.Buffers().Free(); free != c.Buffers().Size() {
		t.Errorf("%d of %d bytes are back", free, c.Buffers().Size())
	}
}

// forgetful loses what is written to one block, but for the first time.
type forgetful struct {
	backend.Backend
	writes atomic.Int32
}

func (f *forgetful) TryWriteAt(p []byte, off int64, flags backend.Flags) error {
	if off == 40960 && f.writes.Add(1) > 1 {
		return nil
	}
	return f.Backend.TryWriteAt(p, off, flags)
}

// Protects --verify: a lost write is found, and told with its place. The disk is so
// small that a slow machine, too, writes each block more than once.
func TestRunFindsLostWrite(t *testing.T) {
	c := connect(t, &forgetful{Backend: ram(t)})
	_, err := Run(context.Background(), c, 1, Config{Mode: Write, BlockSize: 4096, Depth: 4, Runtime: 500 * time.Millisecond, Verify: true, Size: 64 << 10})
	var v *VerifyError
	if !errors.As(err, &v) || v.Offset != 40960 {
		t.Errorf("got %v", err)
	}
}

// Protects from measurements that make no sense, and an early end.
func TestRunTrouble(t *testing.T) {
	c := connect(t, ram(t))
	good := Config{Mode: Read, BlockSize: 4096, Depth: 1, Runtime: time.Second}
	for name, change := range map[string]func(*Config){
		"block size":         func(c *Config) { c.BlockSize = 1000 },
		"large block":        func(c *Config) { c.BlockSize = 2 << 20 },
		"depth":              func(c *Config) { c.Depth = 0 },
		"runtime":            func(c *Config) { c.Runtime = 0 },
		"verify without":     func(c *Config) { c.Verify = true },
		"more than the disk": func(c *Config) { c.Depth = 1000 },
		"size of no disk":    func(c *Config) { c.Size = 4<<20 + 512 },
		"more than the size": func(c *Config) { c.Depth, c.Size = 16, 64<<10 },
	} {
		cfg := good
		change(&cfg)
		if _, err := Run(context.Background(), c, 1, cfg); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Run(context.Background(), c, 2, good); !errors.Is(err, initiator.ErrNoNamespace) {
		t.Errorf("other namespace: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	good.Runtime = time.Hour
	r, err := Run(ctx, c, 1, good)
	if !errors.Is(err, context.DeadlineExceeded) || r.Reads == 0 {
		t.Errorf("%d reads, then %v", r.Reads, err)
	}
	good.Mode, good.Verify = RandWrite, true
	ctx, cancel = context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if r, err = Run(ctx, c, 1, good); !errors.Is(err, context.DeadlineExceeded) || r.Writes == 0 || r.VerifyDone || r.Verified != 0 {
		t.Errorf("%d writes, verified %d of them (%v), then %v", r.Writes, r.Verified, r.VerifyDone, err)
	}
}
