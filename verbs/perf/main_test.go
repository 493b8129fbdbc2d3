package perf_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"rbd/verbs"
	"rbd/verbs/iwarp"
	"rbd/verbs/perf"
)

// TestMain gives the tests the processors that the programs take (see
// cmd/internal/command): both ends are in this process.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), 8))
	goleak.VerifyTestMain(m)
}

// serve starts a server for the time of the test, and returns its address.
func serve(t *testing.T, s *perf.Server) (verbs.Provider, verbs.Addr) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	p, addr, ended := serveUntil(t, ctx, s)
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return p, addr
}

// serveUntil serves until ctx ends.
func serveUntil(t *testing.T, ctx context.Context, s *perf.Server) (verbs.Provider, verbs.Addr, <-chan struct{}) {
	t.Helper()
	p := iwarp.New()
	l, err := p.Listen(ctx, verbs.Addr{Fabric: iwarp.Name, Host: "127.0.0.1", Port: "0"})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer l.Close()
		if err := s.Serve(ctx, l); !errors.Is(err, context.Canceled) {
			t.Errorf("the server ended: %v", err)
		}
	}()
	return p, l.Addr(), ended
}
