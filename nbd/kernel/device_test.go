package kernel

import (
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// tree makes files below a folder, from "path: text" lines; a text "-> x" makes a
// symbolic link.
func tree(t *testing.T, lines string) *Host {
	t.Helper()
	root := t.TempDir()
	for line := range strings.Lines(lines) {
		name, text, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			continue
		}
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if target, ok := strings.CutPrefix(text, "-> "); ok {
			if err := os.Symlink(target, path); err != nil {
				t.Fatal(err)
			}
		} else if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return &Host{Root: root, log: slog.New(slog.DiscardHandler)}
}

const sysTree = `
sys/block/nbd0/size: 2097152
sys/block/nbd0/ro: 0
sys/block/nbd0/dev: 43:0
sys/block/nbd0/pid: 812
sys/block/nbd0/backend: rbd-nqn.2026-11.io.rbd:disk-1
sys/block/nbd0/queue/logical_block_size: 4096
sys/block/nbd0/nbd0p1/dev: 43:1
sys/block/nbd0/nbd0p1/holders/dm-0: x
sys/block/dm-0/dm/name: vg-data
sys/block/loop3/loop/backing_file: /dev/nbd0
sys/block/nbd10/size: 0
sys/block/nbd10/ro: 1
sys/block/nbd10/dev: 43:320
sys/block/nbd10/queue/logical_block_size: 512
sys/block/sda/size: 1
`

// The state of a device is what sysfs says.
func TestDevices(t *testing.T) {
	h := tree(t, sysTree)
	got, err := h.Devices()
	want := []Device{
		{Index: 0, Size: 1 << 30, BlockSize: 4096, Connected: true, Backend: "rbd-nqn.2026-11.io.rbd:disk-1"},
		{Index: 10, BlockSize: 512, ReadOnly: true},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v; want %+v", got, err, want)
	}
	if _, err := h.Device(5); err == nil || !strings.Contains(err.Error(), "/dev/nbd5") {
		t.Errorf("device that is not there: %v", err)
	}
	if got, err := (&Host{Root: t.TempDir()}).Devices(); len(got) != 0 || err != nil {
		t.Errorf("without the module: %v, %v", got, err)
	}
}

// Everybody who uses a device or one of its partitions is named, with the way in
// which he does, and nobody else.
func TestUsers(t *testing.T) {
	h := tree(t, sysTree+`
proc/1/ns/mnt: -> mnt:[4026531841]
proc/1/mountinfo: 22 28 0:21 / /proc rw - proc proc rw
proc/77/ns/mnt: -> mnt:[4026531999]
proc/77/mountinfo: 36 35 43:1 / /a\040b rw,noatime shared:1 - ext4 /dev/nbd0p1 rw
proc/78/ns/mnt: -> mnt:[4026531999]
proc/78/mountinfo: 36 35 43:1 / /a\040b rw,noatime shared:1 - ext4 /dev/nbd0p1 rw
proc/79/ns/mnt: -> mnt:[4026532000]
proc/79/mountinfo: 40 35 0:44 / /pool rw - btrfs /dev/nbd0 rw
proc/80/ns/mnt: -> mnt:[4026532001]
proc/80/mountinfo: 41 35 43:320 / /other rw - ext4 /dev/nbd10 rw
proc/swaps: Filename
proc/swaps: /dev/nbd0p1                             partition	1048572
`)
	d, err := h.Device(0)
	if err != nil {
		t.Fatal(err)
	}
	users, err := h.Users(d)
	if err != nil {
		t.Fatal(err)
	}
	text := (&BusyError{Device: d, Users: users}).Error()
	for _, want := range []string{
		"/dev/nbd0 is in use: ", "nbd0p1 is mounted on /a b", "nbd0 is mounted on /pool", "nbd0p1 is used as swap",
		"nbd0p1 is part of dm-0 (vg-data)", "nbd0 is behind loop3",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	if len(users) != 5 {
		t.Errorf("%d users, want 5: %s", len(users), text)
	}
}

// Paths of devices are those that the driver makes.
func TestParsePath(t *testing.T) {
	for path, want := range map[string]int{
		"/dev/nbd0": 0, "/dev/nbd15": 15, "/dev/nbd": -1, "/dev/nbd01": -1, "/dev/nbd1p1": -1, "nbd1": -1, "/dev/sda": -1, "/dev/nbd99999999": -1,
	} {
		got, err := ParsePath(path)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%s: %d (%v), want %d", path, got, err, want)
		}
	}
}

// What people call a device leads to it: what udev's links and lsblk show, too.
func TestFindPath(t *testing.T) {
	dir := t.TempDir()
	link := func(to, name string) string {
		path := filepath.Join(dir, name)
		if err := os.Symlink(to, path); err != nil {
			t.Fatal(err)
		}
		return path
	}
	up := strings.Repeat("../", strings.Count(dir, "/"))
	byID := link(up+"dev/nbd999998", "rbd-nqn.a-1")
	for name, want := range map[string]int{
		"/dev/nbd7": 7, "nbd7": 7, "/dev/nbd7p1": 7, "nbd12p15": 12,
		byID:                         999998,
		link(byID, "again"):          999998,
		link("/dev/nbd3p2", "part2"): 3,
	} {
		if got, err := FindPath(name); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", name, got, err, want)
		}
	}
	for _, name := range []string{"", "sda", "/dev/sda", "/dev/nbd07", "nbd", "/dev/nbd7p", "x/nbd7", link("/dev/sda", "other"), link("loop", "loop")} {
		if got, err := FindPath(name); err == nil || !strings.Contains(err.Error(), "is not /dev/nbdN") {
			t.Errorf("%q: %d, %v", name, got, err)
		}
	}
}
