package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rbd/internal/testenv"
)

const diskSize = 64 << 20

// backings are the file systems whose differences matter: one that can zero and
// punch ranges, and one that can't zero.
func backings(t *testing.T) map[string]string {
	t.Helper()
	dirs := map[string]string{"disk": t.TempDir()}
	shm, err := os.MkdirTemp("/dev/shm", "rbd-e2e-")
	if err != nil {
		testenv.Skip(t, "a tmpfs at /dev/shm: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(shm) })
	dirs["tmpfs"] = shm
	return dirs
}

// each runs the test over every backing file system and over a Unix and a TCP
// socket: it gets the target's file and the disk's URI.
func each(t *testing.T, f func(t *testing.T, file string, d *disk)) {
	for name, dir := range backings(t) {
		for _, socket := range []string{"unix", "tcp"} {
			t.Run(name+"-"+socket, func(t *testing.T) {
				file := freshFileIn(t, dir, diskSize)
				tg := serve(t, "-e", file+",nqn=nqn.2026-11.org.example:e2e")
				args := []string{"-i", "2"}
				if socket == "tcp" {
					args = append(args, "--nbd-listen", "127.0.0.1:0")
				}
				d := tg.connect("nqn.2026-11.org.example:e2e", args...)
				f(t, file, d)
				d.stop()
				tg.stop()
				if err := os.Remove(file); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// randomFile makes a file of random bytes with holes of zeros between them.
func randomFile(t *testing.T, size int) string {
	t.Helper()
	b := make([]byte, size)
	r := rand.NewChaCha8([32]byte{1})
	for off := 0; off < size; off += 1 << 20 {
		if off>>20%3 != 2 {
			r.Read(b[off:min(off+1<<20, size)])
		}
	}
	name := filepath.Join(t.TempDir(), "random")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func same(t *testing.T, a, b string) {
	t.Helper()
	x, err := os.ReadFile(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := os.ReadFile(b)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(x, y) {
		t.Fatalf("%s (%d bytes) and %s (%d bytes) differ", a, len(x), b, len(y))
	}
}

// nbdinfo sees the disk's size and abilities.
func TestNbdinfo(t *testing.T) {
	testenv.Tools(t, "nbdinfo")
	each(t, func(t *testing.T, _ string, d *disk) {
		var info struct {
			Exports []struct {
				Name         string `json:"export-name"`
				Size         int64  `json:"export-size"`
				ReadOnly     bool   `json:"is_read_only"`
				Flush        bool   `json:"can_flush"`
				FUA          bool   `json:"can_fua"`
				Trim         bool   `json:"can_trim"`
				Zero         bool   `json:"can_zero"`
				MultiConn    bool   `json:"can_multi_conn"`
				Cache        bool   `json:"can_cache"`
				BlockMinimum int    `json:"block_size_minimum"`
			} `json:"exports"`
		}
		text := output(t, "nbdinfo", "--json", d.uri)
		if err := json.Unmarshal([]byte(text), &info); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if len(info.Exports) != 1 {
			t.Fatalf("%d exports: %s", len(info.Exports), text)
		}
		e := info.Exports[0]
		if e.Size != diskSize || e.ReadOnly || !e.Flush || !e.FUA || !e.Trim || !e.Zero || !e.MultiConn || fmt.Sprint(e.BlockMinimum) != d.blockSize {
			t.Fatalf("%+v", e)
		}
		if list := output(t, "nbdinfo", "--list", d.uri); !strings.Contains(list, "export=\"1\"") {
			t.Errorf("the list lacks the export 1: %s", list)
		}
		output(t, "nbdinfo", "--map", d.uri)
	})
}

// What nbdcopy writes is in the target's file, and what is there it reads.
func TestNbdcopy(t *testing.T) {
	testenv.Tools(t, "nbdcopy")
	each(t, func(t *testing.T, file string, d *disk) {
		in, back := randomFile(t, diskSize), filepath.Join(t.TempDir(), "back")
		output(t, "nbdcopy", "--flush", in, d.uri)
		same(t, in, file)
		output(t, "nbdcopy", d.uri, back)
		same(t, in, back)
	})
}

// qemu converts images to and from the disk, finds them equal and sound.
func TestQemuImg(t *testing.T) {
	testenv.Tools(t, "qemu-img", "qemu-io")
	each(t, func(t *testing.T, file string, d *disk) {
		dir := t.TempDir()
		in, qcow, back := randomFile(t, diskSize), filepath.Join(dir, "in.qcow2"), filepath.Join(dir, "back.raw")
		output(t, "qemu-img", "convert", "-f", "raw", "-O", "qcow2", in, qcow)
		output(t, "qemu-img", "convert", "-n", "-f", "qcow2", "-O", "raw", qcow, d.uri)
		same(t, in, file)
		output(t, "qemu-img", "compare", "-f", "qcow2", "-F", "raw", qcow, d.uri)
		output(t, "qemu-img", "convert", "-f", "raw", "-O", "raw", d.uri, back)
		same(t, in, back)
		// A qcow2 image that lives on the disk itself.
		output(t, "qemu-img", "create", "-f", "qcow2", d.uri, "32M")
		output(t, "qemu-io", "-f", "qcow2", "-c", "write -P 0x5a 0 4M", "-c", "write -z 1M 64k", "-c", "discard 2M 64k", "-c", "flush", "-c", "read -P 0x5a 3M 1M", "-c", "read -P 0 1M 64k", d.uri)
		output(t, "qemu-img", "check", "-f", "qcow2", d.uri)
	})
}

// qemu-io's commands act on exactly the bytes that they name.
func TestQemuIO(t *testing.T) {
	testenv.Tools(t, "qemu-io")
	each(t, func(t *testing.T, file string, d *disk) {
		output(t, "qemu-io", "-f", "raw", "-c", "write -P 1 0 1M", "-c", "write -f -P 2 512k 4k", "-c", "write -z -u 64k 64k", "-c", "write -z 256k 3k",
			"-c", "discard 128k 64k", "-c", "aio_write -P 3 768k 128k", "-c", "aio_flush", "-c", "flush", "-c", "writev -P 4 900k 512 1024 512",
			"-c", "read -P 2 512k 4k", "-c", "read -P 0 64k 64k", "-c", "read -P 0 256k 3k", "-c", "read -P 3 768k 128k", d.uri)
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			off, n int
			v      byte
		}{{0, 64 << 10, 1}, {64 << 10, 64 << 10, 0}, {192 << 10, 64 << 10, 1}, {256 << 10, 3 << 10, 0}, {259 << 10, 253 << 10, 1}, {512 << 10, 4 << 10, 2},
			{768 << 10, 128 << 10, 3}, {900 << 10, 2 << 10, 4}, {902 << 10, 122 << 10, 1}, {1 << 20, 1 << 20, 0}} {
			if want := bytes.Repeat([]byte{c.v}, c.n); !bytes.Equal(b[c.off:c.off+c.n], want) {
				t.Errorf("bytes %d..%d of the file are not all %d", c.off, c.off+c.n, c.v)
			}
		}
	})
}

// Every call of libnbd works, and wrong ones leave the connection usable.
func TestNbdsh(t *testing.T) {
	testenv.Tools(t, "nbdsh")
	each(t, func(t *testing.T, _ string, d *disk) {
		output(t, "nbdsh", "-c", `
import errno, nbd
h.add_meta_context("base:allocation")
h.connect_uri("`+d.uri+`")
assert h.get_size() == 64*1024*1024
assert h.get_structured_replies_negotiated()
def refused(f, *want):
    try:
        f()
    except nbd.Error as e:
        assert e.errnum in want, (e.errnum, e.string)
        return
    assert False, "was not refused"
a = bytes(range(256)) * 16
h.pwrite(a, 4096, nbd.CMD_FLAG_FUA)
assert h.pread(4096, 4096) == a
assert h.pread_structured(512, 4096 + 512, lambda buf, off, st, err: 0, nbd.CMD_FLAG_DF) == a[512:1024]
h.zero(4096, 4096, nbd.CMD_FLAG_NO_HOLE)
assert h.pread(4096, 4096) == bytearray(4096)
h.pwrite(a, 8192); h.flush(); h.trim(4096, 8192); h.cache(4096, 0)
big = bytearray(b"\xa5") * (32*1024*1024)
h.pwrite(big, 32*1024*1024)
assert h.pread(len(big), 32*1024*1024) == big
seen = []
h.block_status(64*1024*1024, 0, lambda ctx, off, ext, err: seen.append((ctx, ext)))
assert seen and seen[0][0] == "base:allocation"
h.set_strict_mode(0)
refused(lambda: h.pread(4096, 64*1024*1024), errno.EINVAL)
refused(lambda: h.pwrite(a, 64*1024*1024), errno.ENOSPC, errno.EINVAL)
refused(lambda: h.pread(1, 1), errno.EINVAL)
refused(lambda: h.zero(4096, 2**63), errno.ENOSPC, errno.EINVAL)
refused(lambda: h.trim(4096, 64*1024*1024 - 512), errno.EINVAL, errno.ENOSPC)
assert h.pread(4096, 32*1024*1024) == big[:4096]
h.shutdown()
`)
	})
}

// fio writes with checksums at mixed sizes over several connections and finds
// all of them again.
func TestFioVerify(t *testing.T) {
	testenv.Tools(t, "fio")
	each(t, func(t *testing.T, _ string, d *disk) {
		text := output(t, "fio", "--name=v", "--ioengine=nbd", "--uri="+d.uri, "--rw=randwrite", "--bsrange=512-256k", "--bs_unaligned=0", "--blockalign=512", "--iodepth=32",
			"--size=56M", "--verify=crc32c", "--verify_state_save=0", "--verify_fatal=1", "--verify_backlog=64", "--do_verify=1", "--randseed=7", "--fsync=200")
		if !strings.Contains(text, "err= 0") {
			t.Fatal(text)
		}
	})
}
