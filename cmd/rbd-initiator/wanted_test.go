package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rbd/cmd/internal/command"
	"rbd/cmd/internal/registry"
	"rbd/verbs"
)

// fakeProcess is a process that only has a record.
type fakeProcess registry.Record

func (p fakeProcess) Record() registry.Record { return registry.Record(p) }

func (fakeProcess) Disconnect(context.Context, registry.Disconnect) (bool, error) { return false, nil }

// A second connect is told that there is nothing to do only if the first one has the
// very disk: the same target, host, device and sockets. Scripts make file systems on
// what is printed.
func TestIdempotent(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("RUNTIME_DIRECTORY", dir)
	const sub, host = "nqn.2026-11.io.rbd:a", "nqn.2026-11.io.rbd:host"
	s, err := registry.Serve(dir, fakeProcess{
		PID: 77, NQN: sub, Address: "iwarp://127.0.0.1:9", HostNQN: host,
		Listen: []string{filepath.Join(dir, "with space.sock"), "127.0.0.1:10809"},
		Disks:  []registry.Disk{{NSID: 1, URI: "nbd+unix:///1?socket=first", Size: 512, BlockSize: 512}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(nil)
	const refused = "can't be reached"
	for _, c := range []struct {
		args, want string // want is the beginning of the output, or in the error
		code       int
	}{
		{"-a 127.0.0.1 -s 9", "nbd+unix:///1?socket=first\t512\t512\t" + sub + "\t1\n", 0},
		{"-a localhost -s 9", "nbd+unix:", 0},
		{"-a 127.0.0.1:9?crc=on", "nbd+unix:", 0},
		{"-a 127.0.0.2 -s 9", sub + " is connected from iwarp://127.0.0.1:9 (pid 77), not from iwarp://127.0.0.2:9", 1},
		{"-a 127.0.0.1 -s 10", "(pid 77), not from iwarp://127.0.0.1:10", 1},
		{"-a 127.0.0.1 -s 9 -q " + host, "nbd+unix:", 0},
		{"-a 127.0.0.1 -s 9 -q nqn.2026-11.io.rbd:other", "is connected as host " + host + " (pid 77), not as nqn.2026-11.io.rbd:other", 1},
		{"-a 127.0.0.1 -s 9 --nbd-socket with_space.sock", "nbd+unix:", 0},
		{"-a 127.0.0.1 -s 9 --nbd-socket " + dir + "/with_space.sock", "nbd+unix:", 0},
		{"-a 127.0.0.1 -s 9 --nbd-socket space.sock", refused, 1},
		{"-a 127.0.0.1 -s 9 --nbd-listen localhost:10809", "nbd+unix:", 0},
		{"-a 127.0.0.1 -s 9 --nbd-listen 127.0.0.1:0", "nbd+unix:", 0},
		{"-a 127.0.0.1 -s 9 --nbd-listen 127.0.0.2:0", refused, 1},
		{"-a 127.0.0.1 -s 9 --nbd-socket with_space.sock --nbd-listen 127.0.0.1:0", "nbd+unix:", 0},
	} {
		args := append([]string{"rbd-initiator", "connect", "-n", sub, "--idempotent"}, strings.Fields(c.args)...)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "_", " ")
		}
		var out, errs bytes.Buffer
		code := command.Run(t.Context(), newApp(), args, &out, &errs)
		told := errs.String()
		if c.code == 0 {
			told = out.String()
		}
		if c.want == refused { // there is no target: it has tried to connect
			c.want = "connect to " + sub + " at iwarp://127.0.0.1:9"
		}
		if code != c.code || !strings.Contains(told, c.want) {
			t.Errorf("%s: exit %d, %q, %q; want %d, %q", c.args, code, out.String(), errs.String(), c.code, c.want)
		}
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*space.sock")); len(files) != 0 {
		t.Errorf("left behind: %v", files)
	}
}

// Where a process can't make itself known, its user is told so.
func TestNotListed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("RUNTIME_DIRECTORY", file+"/none")
	var out, errs bytes.Buffer
	command.Run(t.Context(), newApp(), strings.Fields("rbd-initiator connect -a 127.0.0.1 -s 9 -n nqn.2026-11.io.rbd:a --nbd-socket "+t.TempDir()+"/x"), &out, &errs)
	if want := "list and disconnect will not know of this disk"; !strings.Contains(errs.String(), want) {
		t.Errorf("%q, want %q", errs.String(), want)
	}
}

// With kernel devices it must be the device that was asked for.
func TestWantedDevice(t *testing.T) {
	addr, err := verbs.ParseAddr("192.0.2.1", verbs.DefaultPort)
	if err != nil {
		t.Fatal(err)
	}
	list := []registry.Entry{{Alive: true, Record: registry.Record{
		PID: 77, NQN: "nqn.a", Address: "iwarp://192.0.2.1:4420",
		Disks: []registry.Disk{{NSID: 1, Device: "/dev/nbd0"}, {NSID: 2, URI: "nbd+unix:///2?socket=/run/x%20y.sock"}},
	}}}
	for _, c := range []struct {
		nqn     string
		device  string
		sockets socketChoice
		found   bool
		err     string
	}{
		{nqn: "nqn.a", device: "auto", found: true},
		{nqn: "nqn.b", device: "auto"},
		{nqn: "nqn.a", device: "/dev/nbd0", found: true},
		{nqn: "nqn.a", device: "/dev/nbd3", err: "is connected as /dev/nbd0"},
		{nqn: "nqn.a", device: "auto", sockets: socketChoice{path: "/run/y.sock"}, err: "not on the NBD socket"},
		{nqn: "nqn.a", found: true},
		{nqn: "nqn.a", sockets: socketChoice{path: "/run/x y.sock"}, found: true}, // of a process that tells no listeners
		{nqn: "nqn.a", sockets: socketChoice{path: "/y.sock"}},
	} {
		w := wanted{nqn: c.nqn, addr: addr, sockets: c.sockets}
		if w.device, err = parseDevice(c.device); err != nil {
			t.Fatal(err)
		}
		e, found, err := w.connectedBy(t.Context(), list)
		if found != c.found || found && e.PID != 77 || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%+v: %v, %v", c, found, err)
		}
	}
}

// Where a socket listens is compared as the kernel would.
func TestSameListener(t *testing.T) {
	for _, c := range []struct {
		have, want string
		same       bool
	}{
		{"127.0.0.1:10809", "127.0.0.1:10809", true},
		{"127.0.0.1:10809", "localhost:0", true},
		{"[::]:10809", ":10809", true},
		{"[::]:10809", "0.0.0.0:10809", true},
		{"127.0.0.1:10809", ":10809", false},
		{"127.0.0.1:10809", "127.0.0.1:10810", false},
		{"/run/disk.sock", "127.0.0.1:0", false},
	} {
		if got := sameListener(t.Context(), c.have, c.want); got != c.same {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
