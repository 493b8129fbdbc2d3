package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rbd/internal/testenv"
	"rbd/target"
	"rbd/target/backend"
	"rbd/wire"
)

// fakeTarget notes what it is asked.
type fakeTarget struct {
	did  []string
	size int64
	err  error
}

func (f *fakeTarget) Resize(string, uint32) (int64, error) {
	f.did = append(f.did, "resize")
	return f.size, f.err
}

func (f *fakeTarget) RemoveNamespace(context.Context, string, uint32) error {
	f.did = append(f.did, "remove")
	return nil
}

func (f *fakeTarget) AddNamespace(e target.Export) (target.ExportInfo, error) {
	f.did = append(f.did, "add")
	return target.ExportInfo{NQN: e.NQN, NSID: e.NSID, Size: e.Backend.Size()}, nil
}

// look has the watcher look once, and returns what the target was asked.
func look(t *testing.T, w *watcher) string {
	t.Helper()
	f := w.target.(*fakeTarget)
	f.did = nil
	for _, x := range w.exports {
		w.check(t.Context(), x)
	}
	return strings.Join(f.did, " ")
}

// A device that vanishes takes its namespace with it and brings it back; one in its
// place with the same number is another one.
func TestWatchDevice(t *testing.T) {
	dir := t.TempDir()
	node := filepath.Join(dir, "disk")
	if err := unix.Mknod(node, unix.S_IFBLK|0o600, int(unix.Mkdev(43, 0))); err != nil {
		testenv.Skip(t, "the right to make device nodes")
	}
	seq := filepath.Join(dir, "sys/dev/block/43:0/diskseq")
	plug := func(n string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(seq), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(seq, []byte(n+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	plug("5")
	ram, err := backend.NewRAM(1<<20, 512)
	if err != nil {
		t.Fatal(err)
	}
	defer ram.Close()
	w := &watcher{
		target: &fakeTarget{size: 1 << 20}, sys: filepath.Join(dir, "sys"), log: slog.New(slog.DiscardHandler),
		open: func(*exportSpec) (backend.Backend, error) { return ram, nil },
	}
	x := &watched{spec: &exportSpec{Path: node, NQN: "nqn.a", NSID: 1}, size: 1 << 20}
	x.disk, x.block = w.diskAt(node)
	w.exports = []*watched{x}
	if x.disk != "43:0 5" || !x.block || w.needsTicks() {
		t.Fatalf("%+v", x)
	}
	for _, step := range []struct {
		what string
		do   func()
		want string
	}{
		{"nothing", func() {}, "resize"},
		{"unplugged", func() { os.RemoveAll(filepath.Dir(seq)) }, "remove"},
		{"still unplugged", func() {}, ""},
		{"plugged in", func() { plug("6") }, "add"},
		{"nothing again", func() {}, "resize"},
		{"replaced", func() { plug("7") }, "remove"},
		{"and used", func() {}, "add"},
	} {
		step.do()
		if got := look(t, w); got != step.want {
			t.Errorf("%s: %q, want %q", step.what, got, step.want)
		}
	}
}

// An error is told once, and again only after it had passed.
func TestWatchTellsOnce(t *testing.T) {
	var log bytes.Buffer
	f := &fakeTarget{size: 512, err: errors.New("broken")}
	w := &watcher{target: f, log: slog.New(slog.NewTextHandler(&log, nil)), exports: []*watched{{spec: &exportSpec{Path: "/x"}, size: 512, moved: "is gone"}}}
	for range 3 {
		look(t, w)
	}
	f.err = nil
	look(t, w)
	f.err = errors.New("broken")
	look(t, w)
	if n := strings.Count(log.String(), "broken"); n != 2 {
		t.Errorf("told %d times:\n%s", n, log.String())
	}
}

// A file that grows is a namespace that grows, seen by the target's hosts.
func TestWatchFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	spec := exportSpec{Path: path, Backend: "file", NQN: "nqn.2026-11.io.rbd:x", NSID: 1, Size: 1 << 20}
	b, err := spec.open()
	if err != nil {
		t.Fatal(err)
	}
	tg, err := target.New(target.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := shutdown(tg); err != nil {
			t.Error(err)
		}
	}()
	if _, err := tg.AddNamespace(target.Export{NQN: spec.NQN, NSID: 1, UUID: wire.UUID(spec.UUID), Backend: b}); err != nil {
		t.Fatal(err)
	}
	w := newWatcher(tg, []exportSpec{spec}, []backend.Backend{b}, slog.New(slog.DiscardHandler))
	if !w.needsTicks() {
		t.Error("no event tells of files")
	}
	for _, size := range []int64{2 << 20, 1<<20 + 512} {
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		w.check(t.Context(), w.exports[0])
		if got := tg.Exports()[0].Size; got != size {
			t.Errorf("exported size is %d, want %d", got, size)
		}
	}
}

// Protects data that is written to a file which nobody can find any more: who replaces or
// removes it is told, once, and so is who puts it back.
func TestWatchFileReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	spec := exportSpec{Path: path, Backend: "file", NQN: "nqn.a", NSID: 1, Size: 512}
	b, err := spec.open()
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var log bytes.Buffer
	w := newWatcher(&fakeTarget{size: 512}, []exportSpec{spec}, []backend.Backend{b}, slog.New(slog.NewTextHandler(&log, nil)))
	rename := func(from, to string) {
		t.Helper()
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		what string
		do   func()
		want string
	}{
		{"nothing", func() {}, ""},
		{"moved away", func() { rename(path, path+".old") }, "level=WARN msg=\"exported file is gone; the export goes on with the old one"},
		{"still away", func() {}, ""},
		{"another one", func() { os.WriteFile(path, make([]byte, 512), 0o600) }, "level=WARN msg=\"exported file is another file now"},
		{"still another", func() {}, ""},
		{"back", func() { rename(path+".old", path) }, "level=INFO msg=\"exported file is at its path again"},
		{"removed", func() { os.Remove(path) }, "is gone"},
	} {
		step.do()
		log.Reset()
		look(t, w)
		if got := log.String(); (got == "") != (step.want == "") || !strings.Contains(got, step.want) || strings.Count(got, "\n") > 1 {
			t.Errorf("%s: %q, want %q", step.what, got, step.want)
		}
	}
}
