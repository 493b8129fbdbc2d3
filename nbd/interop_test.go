package nbd_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"rbd/internal/testenv"
	"rbd/nbd"
	"rbd/nbd/nbdtest"
)

// run is the output of a client program that must succeed.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	testenv.Tools(t, name)
	cmd := exec.CommandContext(t.Context(), name, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %q: %v\n%s%s", name, args, err, out, errs.String())
	}
	return string(out)
}

func (r *running) uri(export string) string { return nbd.URI(r.addr, export) }

// libnbd's nbdinfo sees the export as it is.
func TestNbdinfo(t *testing.T) {
	ram := newRAM(t, 1<<20)
	ram.DeviceInfo.MinBlock = 512
	copy(ram.Data[8192:], "data")
	s := start(t, nbdtest.Sparse{RAM: ram})
	for _, network := range []string{"unix", "tcp"} {
		if network == "tcp" {
			s.listen(t, "tcp")
		}
		var got struct {
			Exports []map[string]any `json:"exports"`
		}
		if err := json.Unmarshal([]byte(run(t, "nbdinfo", "--json", "--list", s.uri(""))), &got); err != nil {
			t.Fatal(err)
		}
		if len(got.Exports) != 1 {
			t.Fatalf("%d exports", len(got.Exports))
		}
		for key, want := range map[string]any{
			"export-name": "disk", "description": "a disk", "export-size": 1048576.0,
			"is_read_only": false, "is_rotational": false, "can_cache": true, "can_df": true, "can_fast_zero": true,
			"can_flush": true, "can_fua": true, "can_multi_conn": true, "can_trim": true, "can_zero": true,
			"block_size_minimum": 512.0, "block_size_preferred": 4096.0, "block_size_maximum": 33554432.0,
		} {
			if got.Exports[0][key] != want {
				t.Errorf("%s: %s is %v, want %v", network, key, got.Exports[0][key], want)
			}
		}
	}
	m := strings.Fields(strings.ReplaceAll(run(t, "nbdinfo", "--map", s.uri("disk")), "\n", " "))
	if got, want := strings.Join(m, " "), "0 8192 3 hole,zero 8192 4096 0 data 12288 1036288 3 hole,zero"; got != want {
		t.Errorf("map is %s, want %s", got, want)
	}
}

// randomFile is a file with data and holes.
func randomFile(t *testing.T, size int) (path string, content []byte) {
	t.Helper()
	content = make([]byte, size)
	r := rand.NewChaCha8([32]byte{1})
	for at := 0; at < size; at += 1 << 20 {
		if at>>20%3 != 1 {
			r.Read(content[at : at+1<<20])
		}
	}
	path = filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, content
}

// nbdcopy and qemu-img bring an image in and out unchanged.
func TestCopy(t *testing.T) {
	for _, async := range []bool{false, true} {
		path, content := randomFile(t, 16<<20)
		ram := newRAM(t, len(content))
		ram.Async = async
		ram.DeviceInfo.MinBlock = 512
		ram.DeviceInfo.MaxTransfer = 128 << 10
		s := start(t, nbdtest.Sparse{RAM: ram})
		back := filepath.Join(t.TempDir(), "back")
		check := func(how string) {
			t.Helper()
			if !bytes.Equal(ram.Data, content) {
				t.Errorf("async %v, %s: the device differs from the image", async, how)
			}
			if b, err := os.ReadFile(back); err != nil || !bytes.Equal(b, content) {
				t.Errorf("async %v, %s: the copy differs from the image: %v", async, how, err)
			}
		}
		run(t, "nbdcopy", path, s.uri("disk"))
		run(t, "nbdcopy", s.uri("disk"), back)
		check("nbdcopy")
		pattern(ram.Data, 1)
		run(t, "qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", path, s.uri("disk"))
		run(t, "qemu-img", "convert", "-f", "raw", "-O", "raw", s.uri("disk"), back)
		run(t, "qemu-img", "compare", "-f", "raw", "-F", "raw", path, s.uri("disk"))
		check("qemu-img")
	}
}

// qemu-io does its reads, writes, discards and zeroes, unaligned ones included.
func TestQemuIO(t *testing.T) {
	ram := newRAM(t, 4<<20)
	ram.DeviceInfo.MinBlock = 512
	s := start(t, ram)
	out := run(t, "qemu-io", "-f", "raw", "-t", "none",
		"-c", "write -P 0x5a 0 1M", "-c", "write -f -P 0x33 1000 3000", "-c", "write -z -u 2M 64k", "-c", "write -z 3M 4k",
		"-c", "discard 1M 512k", "-c", "flush",
		"-c", "read -P 0x5a 0 1000", "-c", "read -P 0x33 1000 3000", "-c", "read -P 0x5a 4000 1000000", "-c", "read -P 0 2M 64k",
		"-c", "aio_write -P 0x77 3M 512k", "-c", "aio_flush", "-c", "read -P 0x77 3M 512k", s.uri("disk"))
	if strings.Contains(out, "Pattern verification failed") || strings.Count(out, "ops;") != 11 {
		t.Error(out)
	}
}

// fio's own verification, at depth.
func TestFio(t *testing.T) {
	ram := newRAM(t, 8<<20)
	ram.Async = true
	s := start(t, ram)
	run(t, "fio", "--name=verify", "--ioengine=nbd", "--uri="+s.uri("disk"), "--rw=randwrite", "--bsrange=512-256k",
		"--size=8m", "--iodepth=32", "--verify=crc32c", "--verify_state_save=0", "--verify_fatal=1", "--fsync=50")
}

// libnbd drives what the other clients don't use: simple replies, the flags, 64
// bit requests where it has them, errors, and the negotiation step by step.
func TestNbdsh(t *testing.T) {
	ram := newRAM(t, 64<<20)
	ram.DeviceInfo.MinBlock = 512
	s := start(t, nbdtest.Sparse{RAM: ram})
	t.Setenv("NBD_URI", s.uri("disk"))
	t.Setenv("PATH", "/usr/bin:"+os.Getenv("PATH")) // the python that has libnbd's module
	run(t, "nbdsh", "-c", `exec(open("testdata/nbdsh.py").read())`)
}
