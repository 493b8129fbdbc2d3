package main

import (
	"bytes"
	"strings"
	"testing"

	"rbd/cmd/internal/command"
)

// What contradicts itself, or can't be, is wrong usage whatever else is asked for: it
// must not be dropped in silence.
func TestContradictions(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"connect -a 127.0.0.1:4420 -s 9999 -n nqn.2026-11.io.rbd:a", "--traddr 127.0.0.1:4420 has port 4420, and --trsvcid says 9999"},
		{"discover -a iwarp://[::1]:4420 -s 9999", "has port 4420, and --trsvcid says 9999"},
		{"perf -a 127.0.0.1:1 -s 2", "has port 1, and --trsvcid says 2"},
		{"connect -a 127.0.0.1:4420 -s x -n nqn.2026-11.io.rbd:a", `--trsvcid "x" is not a port`},
		{"connect -a 127.0.0.1 -n nqn.2026-11.io.rbd:a --nbd-timeout -5", "--nbd-timeout -5 is not from 1"},
		{"connect -a 127.0.0.1 -n nqn.2026-11.io.rbd:a --nbd-timeout 0", "--nbd-timeout 0 is not from 1"},
	} {
		var out, errs bytes.Buffer
		code := command.Run(t.Context(), newApp(), strings.Fields("rbd-initiator "+c.args), &out, &errs)
		if code != command.ExitUsage || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: exit %d, %q; want %q", c.args, code, errs.String(), c.want)
		}
	}
	for _, args := range []string{"-a 127.0.0.1:9 -s 9", "-a 127.0.0.1:9 -s 09", "-a 127.0.0.1:9"} {
		var out, errs bytes.Buffer
		code := command.Run(t.Context(), newApp(), strings.Fields("rbd-initiator discover "+args), &out, &errs)
		if code != command.ExitFailed || !strings.Contains(errs.String(), "127.0.0.1:9") {
			t.Errorf("%s: exit %d, %q", args, code, errs.String())
		}
	}
}
