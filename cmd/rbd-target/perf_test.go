package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"rbd/cmd/internal/command"
	"rbd/verbs"
	"rbd/verbs/iwarp"
	"rbd/verbs/perf"
)

// Protects hosts from serving remote memory to a network by mistake, and users
// from mistyped options.
func TestPerfUsage(t *testing.T) {
	for line, want := range map[string]string{
		"perf -l 192.0.2.1": "add --allow-any-host",
		"perf -l :1":        "add --allow-any-host",
		"perf -l [::]:1":    "add --allow-any-host",
		"perf -l iwarp://127.0.0.1:0 -l 0.0.0.0:0": "add --allow-any-host",
		"perf -l nvme://127.0.0.1:0":               "neither iwarp nor rdma",
		"perf -l 127.0.0.1:x":                      "port",
		"perf -l iwarp://":                         "is empty",
		"perf --max-tests 0":                       "--max-tests 0",
		"perf --max-tests 65":                      "--max-tests 65",
		"perf -o xml":                              "output format",
	} {
		var out, errs bytes.Buffer
		code := command.Run(t.Context(), newApp(), append([]string{"rbd-target"}, strings.Fields(line)...), &out, &errs)
		if code != command.ExitUsage || out.Len() > 0 || !strings.Contains(errs.String(), want) || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%s: exit %d, %q, %q; want %q", line, code, out.String(), errs.String(), want)
		}
	}
}

// lines hands what is written to the test, line by line.
type lines chan string

func (l lines) Write(b []byte) (int, error) {
	l <- string(b)
	return len(b), nil
}

// Protects the server's whole way: it says where it listens, measures, and ends
// cleanly when it is told to.
func TestPerfServes(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	out := make(lines, 10)
	var errs bytes.Buffer
	code := make(chan int, 1)
	go func() {
		code <- command.Run(ctx, newApp(), strings.Fields("rbd-target perf -l 127.0.0.1:0 -l [::1]:0"), out, &errs)
	}()
	for range 2 {
		var line string
		select {
		case line = <-out:
		case c := <-code:
			t.Fatalf("exit %d, %s", c, errs.String())
		case <-time.After(10 * time.Second):
			t.Fatal("it does not say where it listens")
		}
		addr, err := verbs.ParseAddr(strings.TrimSpace(strings.TrimPrefix(line, "listening ")), "0")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := perf.Run(t.Context(), iwarp.New(), addr, perf.Config{Op: perf.ReadBW, Size: 100, Iterations: 10}); err != nil {
			t.Error(err)
		}
	}
	stop()
	if c := <-code; c != 0 || !strings.Contains(errs.String(), "test begins") {
		t.Errorf("exit %d, %s", c, errs.String())
	}
}
