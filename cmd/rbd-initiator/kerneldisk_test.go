package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"rbd/cmd/internal/command"
	"rbd/nbd/kernel"
)

// An identifier is a file name, tells the disk, and is another for each disk.
func TestIdentifier(t *testing.T) {
	seen := make(map[string]string)
	for _, c := range []struct {
		nqn  string
		nsid uint32
		want string
	}{
		{"nqn.2026-11.io.rbd:disk.img", 1, "rbd-nqn.2026-11.io.rbd:disk.img-1"},
		{"nqn.2026-11.io.rbd:disk.img", 12, "rbd-nqn.2026-11.io.rbd:disk.img-12"},
		{"nqn.2026-11.io.rbd:a/../b c", 1, `rbd-nqn.2026-11.io.rbd:a\x2f..\x2fb\x20c-1`},
		{`nqn.2026-11.io.rbd:a\x2f..\x2fb\x20c`, 1, `rbd-nqn.2026-11.io.rbd:a\x5cx2f..\x5cx2fb\x5cx20c-1`},
		{"nqn.2026-11.io.rbd:ü", 1, `rbd-nqn.2026-11.io.rbd:\xc3\xbc-1`},
	} {
		got := identifier(c.nqn, c.nsid)
		if got != c.want || strings.ContainsAny(got, "/ \n\"$") {
			t.Errorf("%s, %d: %s, want %s", c.nqn, c.nsid, got, c.want)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("%s and %s have one identifier", other, c.nqn)
		}
		seen[got] = c.nqn
	}
	if nqn, nsid := parseIdentifier("rbd-nqn.2026-11.io.rbd:disk-img-12"); nqn != "nqn.2026-11.io.rbd:disk-img" || nsid != 12 {
		t.Errorf("%s, %d", nqn, nsid)
	}
}

// --nbd-device is auto or /dev/nbdN.
func TestParseDevice(t *testing.T) {
	for text, want := range map[string]deviceChoice{
		"": {}, "auto": {true, kernel.AnyDevice}, "/dev/nbd0": {true, 0}, "/dev/nbd17": {true, 17},
	} {
		if got, err := parseDevice(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"nbd0", "/dev/nbd", "/dev/nbd0p1", "/dev/sda", "automatic"} {
		if got, err := parseDevice(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

// The kernel keeps requests for longer than the target may be away.
func TestDeadConnectionTimeout(t *testing.T) {
	k := kernelDisks{lossTimeout: 600 * time.Second, requestTimeout: 30 * time.Second, conns: 4}
	if o := k.options("x"); o.DeadConnTimeout != 660*time.Second || o.RequestTimeout != 30*time.Second || o.Connections != 4 {
		t.Errorf("%+v", o)
	}
	k.lossTimeout = -1
	if o := k.options("x"); o.DeadConnTimeout < 24*24*time.Hour {
		t.Errorf("for ever is %v", o.DeadConnTimeout)
	}
}

// The configuration file gives what the command line does not, and nothing else.
func TestReadConfig(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "x.toml")
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	read := func(path string, args ...string) (c *cli.Context, err error) {
		cmd := connectCommand()
		cmd.Action = func(ctx *cli.Context) error {
			c, err = ctx, readConfig(ctx)
			return nil
		}
		app := &cli.App{Name: "rbd-initiator", Commands: []*cli.Command{cmd}}
		var out bytes.Buffer
		args = append([]string{"rbd-initiator", "connect", "--config", path}, args...)
		if code := command.Run(t.Context(), app, args, &out, &out); code != 0 {
			t.Fatal(out.String())
		}
		return c, err
	}
	c, err := read(file("traddr = \"192.0.2.1\"\nnqn = \"nqn.a\"\nnr-io-queues = 2\nidempotent = true\nwait = -1\n"), "-n", "nqn.b")
	if err != nil || c.String("traddr") != "192.0.2.1" || c.String("nqn") != "nqn.b" || c.Int("nr-io-queues") != 2 || !c.Bool("idempotent") || c.Int("wait") != -1 {
		t.Errorf("%v: %q %q %d", err, c.String("traddr"), c.String("nqn"), c.Int("nr-io-queues"))
	}
	for text, want := range map[string]string{
		"a = 1":                      `there is no option "a"`,
		"config = \"x\"":             `there is no option "config"`,
		"wait = \"soon\"":            "wait = soon",
		"nqn = [\"a\"]":              "nqn is neither text",
		"wait = ":                    "--config",
		"wait = 1\nwait = 2":         "--config",
		"[connect]\nnqn = \"nqn\"\n": `there is no option "connect"`,
	} {
		if _, err := read(file(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// The list is a table that says what belongs to a process and what is left behind.
func TestPrintList(t *testing.T) {
	var b bytes.Buffer
	since := time.Date(2026, 11, 29, 12, 0, 0, 0, time.Local)
	if err := printList(&b, []listed{
		{Disk: "/dev/nbd0", Size: 10 << 30, State: "live", Since: &since, Address: "iwarp://192.0.2.1:4420", NQN: "nqn.a", NSID: 1, PID: 77},
		{Disk: "/dev/nbd1", Size: 1 << 20, State: stateLeftBehind, NQN: "nqn.b", NSID: 2},
	}); err != nil {
		t.Fatal(err)
	}
	const want = `DISK       SIZE     STATE        SINCE                TARGET                  NQN    NSID  PID
/dev/nbd0  10 GiB   live         2026-11-29 12:00:00  iwarp://192.0.2.1:4420  nqn.a  1     77
/dev/nbd1  1.0 MiB  left behind  -                    -                       nqn.b  2     -
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}
