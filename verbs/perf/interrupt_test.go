package perf_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"rbd/verbs"
	"rbd/verbs/perf"
)

// Protects what ctrl-C gives: everything measured until then.
func TestInterrupt(t *testing.T) {
	p, addr := serve(t, &perf.Server{})
	for _, op := range []perf.Op{perf.WriteBW, perf.ReadBW, perf.SendLat, perf.WriteLat} {
		for _, cfg := range []perf.Config{{Op: op, Size: 512, Iterations: perf.MaxIterations}, {Op: op, Size: 512, Duration: time.Hour}} {
			r, took := interrupted(t, p, addr, cfg, 200*time.Millisecond)
			if r.Iterations < perf.MinIterations || r.Iterations >= perf.MaxIterations || r.Elapsed <= 0 || r.Elapsed > took {
				t.Errorf("%s: %+v in %v", op, r, took)
			}
		}
	}
}

// interrupted runs a test until ctx ends it; longer if the machine is so busy that
// it did not come to measure in that time.
func interrupted(t *testing.T, p verbs.Provider, addr verbs.Addr, cfg perf.Config, after time.Duration) (perf.Result, time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), after)
	defer cancel()
	begun := time.Now()
	r, err := perf.Run(ctx, p, addr, cfg)
	took := time.Since(begun)
	if !errors.Is(err, context.DeadlineExceeded) || took > after+4*time.Second {
		t.Errorf("%s: %v after %v", cfg.Op, err, took)
	}
	if r.Iterations < perf.MinIterations && after < 5*time.Second {
		return interrupted(t, p, addr, cfg, 2*after)
	}
	return r, took
}

// Protects a client whose server goes away in the midst of a test: it is told, at
// once, and gets what was measured.
func TestServerGone(t *testing.T) {
	for _, op := range []perf.Op{perf.WriteBW, perf.ReadBW, perf.SendLat, perf.WriteLat} {
		begins := make(chan struct{}, 1)
		s := &perf.Server{Log: slog.New(onRecord{func() { begins <- struct{}{} }})}
		ctx, stop := context.WithCancel(t.Context())
		p, addr, ended := serveUntil(t, ctx, s)
		go func() {
			<-begins
			time.Sleep(300 * time.Millisecond)
			stop()
		}()
		r, err := perf.Run(t.Context(), p, addr, perf.Config{Op: op, Size: 512, Duration: time.Minute})
		if err == nil || errors.Is(err, context.Canceled) || r.Iterations == 0 {
			t.Errorf("%s: %d iterations, error %v", op, r.Iterations, err)
		}
		<-ended
	}
}

// onRecord is a log handler that calls a function when a test begins.
type onRecord struct{ begins func() }

func (onRecord) Enabled(context.Context, slog.Level) bool { return true }
func (h onRecord) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "test begins" {
		h.begins()
	}
	return nil
}
func (h onRecord) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h onRecord) WithGroup(string) slog.Handler      { return h }

// Protects the comparison: turns of both sides, medians, and the ratio's direction.
func TestCompare(t *testing.T) {
	p, addr := serve(t, &perf.Server{})
	big, small := perf.Config{Op: perf.WriteBW, Size: 1 << 20, Iterations: 50}, perf.Config{Op: perf.WriteBW, Size: 16, Iterations: 50}
	c, err := perf.Compare(t.Context(), [2]perf.Side{{Provider: p, Addr: addr, Config: big}, {Provider: p, Addr: addr, Config: small}}, 3)
	if err != nil {
		t.Fatal(err)
	}
	if c.Rounds != 3 || c.Results[0].Size != big.Size || c.Results[1].Size != small.Size || c.Ratio < 2 {
		t.Errorf("%+v", c)
	}
	if _, err := perf.Compare(t.Context(), [2]perf.Side{{Config: big}, {Config: perf.Config{Op: perf.ReadBW}}}, 1); err == nil {
		t.Error("different tests were compared")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := perf.Compare(ctx, [2]perf.Side{{Provider: p, Addr: addr, Config: big}, {Provider: p, Addr: addr, Config: small}}, 3); err == nil || c.Rounds != 0 {
		t.Errorf("without any time: %+v, %v", c, err)
	}
}
