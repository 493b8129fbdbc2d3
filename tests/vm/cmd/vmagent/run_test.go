package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"rbd/tests/vm/control"
)

// Protects what the runner learns about a program: its output, both streams, its
// exit status, and the signal that ended it.
func TestExecute(t *testing.T) {
	for _, c := range []struct {
		name, script, output string
		exit                 int
	}{
		{"both streams", "echo out; echo err >&2", "out\nerr\n", 0},
		{"exit status", "exit 7", "", 7},
		{"signal", "kill -KILL $$", "", 128 + 9},
		{"environment", "echo $WORD", "yes\n", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			res := execute(control.Request{Argv: []string{"/bin/sh", "-c", c.script}, Env: []string{"WORD=yes"}, Timeout: 10 * time.Second}, &out)
			if res.Exit != c.exit || res.TimedOut || res.Error != "" || out.String() != c.output {
				t.Errorf("result %+v, output %q", res, out.String())
			}
		})
	}
}

// Protects the bound on a program's time, and its chance to clean up.
func TestExecuteTimeout(t *testing.T) {
	var out bytes.Buffer
	start := time.Now()
	res := execute(control.Request{Argv: []string{"/bin/bash", "-c", "trap 'echo cleaned; exit 3' TERM; while :; do sleep 0.1; done"}, Timeout: 300 * time.Millisecond}, &out)
	if !res.TimedOut || res.Exit != 3 || !strings.HasSuffix(out.String(), "cleaned\n") {
		t.Errorf("result %+v, output %q", res, out.String())
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("took %v", d)
	}
}

// Protects the agent from a program that leaves another in the background, with
// the output still open.
func TestExecuteLeftBehind(t *testing.T) {
	var out bytes.Buffer
	start := time.Now()
	res := execute(control.Request{Argv: []string{"/bin/sh", "-c", "sleep 20 & echo done"}, Timeout: 30 * time.Second}, &out)
	if res.Exit != 0 || out.String() != "done\n" {
		t.Errorf("result %+v, output %q", res, out.String())
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("waited %v for a program in the background", d)
	}
}

// Protects against programs that do not exist.
func TestExecuteMissing(t *testing.T) {
	res := execute(control.Request{Argv: []string{"/nonexistent"}, Timeout: time.Second}, os.Stderr)
	if res.Exit != -1 || !strings.Contains(res.Error, "nonexistent") {
		t.Errorf("result %+v", res)
	}
}
