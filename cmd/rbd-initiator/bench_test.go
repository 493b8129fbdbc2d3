package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"rbd/cmd/internal/command"
	"rbd/initiator/bench"
)

// What would measure something else than was asked for is wrong usage, and times are
// read as perf reads them.
func TestBenchUsage(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"--size 0", command.ExitUsage, "--size: 0 bytes measure nothing"},
		{"--size much", command.ExitUsage, "--size"},
		{"--runtime 0", command.ExitUsage, `--runtime "0" is not a time`},
		{"--runtime -5s", command.ExitUsage, `--runtime "-5s" is not a time`},
		{"--runtime nan", command.ExitUsage, `--runtime "nan" is not a time`},
		{"--runtime 1e300", command.ExitUsage, `--runtime "1e300" is not a time`},
		{"--runtime 5", command.ExitFailed, "127.0.0.1:9"}, // there is no target
		{"--runtime 1m", command.ExitFailed, "127.0.0.1:9"},
	} {
		var out, errs bytes.Buffer
		args := strings.Fields("rbd-initiator bench -a 127.0.0.1 -s 9 -n nqn.2026-11.io.rbd:a " + c.args)
		if code := command.Run(t.Context(), newApp(), args, &out, &errs); code != c.code || !strings.Contains(errs.String(), c.want) {
			t.Errorf("%s: exit %d, %q; want %d, %q", c.args, code, errs.String(), c.code, c.want)
		}
	}
	for text, want := range map[string]time.Duration{"5": 5 * time.Second, "0.5": 500 * time.Millisecond, "1m30s": 90 * time.Second} {
		if d, err := parseTime(text); err != nil || d != want {
			t.Errorf("%q is %v, %v", text, d, err)
		}
	}
}

// A verification that did not take place is not told as one of 0 blocks.
func TestBenchNotVerified(t *testing.T) {
	for _, c := range []struct {
		verify, done bool
		want, why    string
	}{
		{true, true, "\nverified: 7 blocks", ""},
		{true, false, "\nnot verified: interrupted\n", "interrupted"},
		{false, false, "", ""},
	} {
		var out bytes.Buffer
		cfg, r := bench.Config{Verify: c.verify}, bench.Result{VerifyDone: c.done, Verified: 7}
		if err := printBench(&out, &cfg, &r); err != nil || !strings.Contains(out.String(), c.want) || strings.Contains(out.String(), "verified") != c.verify {
			t.Errorf("%+v: %q, %v", c, out.String(), err)
		}
		b, err := json.Marshal(benchResult(&cfg, &r))
		if why := `"not_verified":"interrupted"`; err != nil || strings.Contains(string(b), why) != (c.why != "") {
			t.Errorf("%+v: %s, %v", c, b, err)
		}
	}
}
