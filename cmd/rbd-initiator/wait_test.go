package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"rbd/cmd/internal/command"
)

// A signal while the target is waited for is an end in good order, whether it comes
// between two tries or in the midst of one: a unit that is stopped has not failed.
func TestEndedWhileWaiting(t *testing.T) {
	t.Setenv("RUNTIME_DIRECTORY", t.TempDir())
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, c := range []struct {
		name, addr, wait, want string
	}{
		{"between tries", closed.Addr().String(), "-1", "connection refused"},
		{"in a try", silent.Addr().String(), "-1", "ended while waiting"},
		{"in the only try", silent.Addr().String(), "0", "ended while waiting"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(300*time.Millisecond, func() { cancel(errors.New("terminated signal received")) })
			var out, errs bytes.Buffer
			code := command.Run(ctx, newApp(), []string{"rbd-initiator", "connect", "-a", c.addr, "-n", "nqn.2026-11.io.rbd:a", "--wait", c.wait}, &out, &errs)
			lines := strings.Split(strings.TrimSpace(errs.String()), "\n")
			last := lines[len(lines)-1]
			if code != 0 || out.Len() != 0 || !strings.Contains(last, c.want) || !strings.Contains(last, "terminated signal received") {
				t.Errorf("exit %d, %q, %q", code, out.String(), errs.String())
			}
		})
	}
	var out, errs bytes.Buffer
	code := command.Run(t.Context(), newApp(), []string{"rbd-initiator", "connect", "-a", closed.Addr().String(), "-n", "nqn.2026-11.io.rbd:a"}, &out, &errs)
	if code != 1 || !strings.Contains(errs.String(), "connection refused") {
		t.Errorf("without a signal: exit %d, %q", code, errs.String())
	}
}
