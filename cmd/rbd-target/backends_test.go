package main

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rbd/cmd/internal/command"
)

// Protects the next try, with another size, from what a failed start would leave behind,
// and files that were there before from being taken for that.
func TestFailedStartRemovesNewFiles(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	old, fresh := filepath.Join(dir, "old"), filepath.Join(dir, "fresh")
	if err := os.WriteFile(old, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(old, 1<<20); err != nil { // sparse, as a new one
		t.Fatal(err)
	}
	for _, more := range [][]string{{"-l", taken.Addr().String()}, {"-e", dir + "/none"}} {
		var out, errs bytes.Buffer
		args := append([]string{"rbd-target", "serve", "-e", old + ",size=1M", "-e", fresh + ",size=1M"}, more...)
		if code := command.Run(t.Context(), newApp(), args, &out, &errs); code != command.ExitFailed {
			t.Fatalf("%q: exit %d, %s", more, code, errs.String())
		}
		if _, err := os.Stat(old); err != nil {
			t.Errorf("%q: %v", more, err)
		}
		if _, err := os.Stat(fresh); !os.IsNotExist(err) {
			t.Errorf("%q: the new file is still there: %v", more, err)
		}
	}
}

// Protects data that somebody has written meanwhile, and what was served.
func TestNewFilesStay(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	s := &settings{}
	if !isAbsent(path) || os.WriteFile(path, make([]byte, 4096), 0o600) != nil {
		t.Fatal("can't make the file")
	}
	s.noteNewFile(path)
	if err := s.removeNewFiles(); err != nil || isAbsent(path) {
		t.Errorf("a file with data was removed (%v)", err)
	}

	path += ".served"
	ctx, cancel := context.WithCancel(t.Context())
	out := make(lines, 10)
	code := make(chan int, 1)
	go func() {
		code <- command.Run(ctx, newApp(), []string{"rbd-target", "serve", "-l", "127.0.0.1:0", "-e", path + ",size=1M"}, out, new(bytes.Buffer))
	}()
	<-out
	<-out
	cancel()
	if c := <-code; c != command.ExitDone || isAbsent(path) {
		t.Errorf("exit %d, and the file is gone: %v", c, isAbsent(path))
	}
}

// Protects users from looking for another program.
func TestExportedTwice(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	var out, errs bytes.Buffer
	code := command.Run(t.Context(), newApp(), []string{"rbd-target", "serve", "-l", "127.0.0.1:0", "-e", path + ",size=1M", "-e", path}, &out, &errs)
	if code != command.ExitUsage || !strings.Contains(errs.String(), "two exports are the file "+path) || !isAbsent(path) {
		t.Errorf("exit %d, %s", code, errs.String())
	}
}

// Protects a machine from exports that it has no memory for.
func TestWarnOfMemory(t *testing.T) {
	meminfo := filepath.Join(t.TempDir(), "meminfo")
	if err := os.WriteFile(meminfo, []byte("MemTotal:  9999999 kB\nMemAvailable:    2048 kB\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		exports []exportSpec
		meminfo string
		warn    bool
	}{
		{[]exportSpec{{Backend: "ram", Size: 1 << 20}, {Backend: "ram", Size: 1<<20 + 512}}, meminfo, true},
		{[]exportSpec{{Backend: "ram", Size: 2 << 20}, {Backend: "null", Size: 1 << 40}, {Backend: "file", Size: 1 << 40}}, meminfo, false},
		{[]exportSpec{{Backend: "ram", Size: 1 << 60}}, meminfo + ".none", false},
	} {
		var log bytes.Buffer
		s := &settings{exports: c.exports, log: slog.New(slog.NewTextHandler(&log, nil))}
		s.warnOfMemory(c.meminfo)
		if got := strings.Contains(log.String(), "available=\"2.0 MiB\""); got != c.warn {
			t.Errorf("%+v: %q", c, log.String())
		}
	}
}
