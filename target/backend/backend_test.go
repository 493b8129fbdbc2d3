package backend

import (
	"bytes"
	"errors"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"rbd/internal/testenv"
)

const testSize = 2 << 20

// makers make an empty backend of testSize bytes of each kind that keeps data.
var makers = []struct {
	name string
	make func(t *testing.T) Backend
}{
	{"file", func(t *testing.T) Backend { return newFile(t, t.TempDir()) }},
	{"tmpfs", func(t *testing.T) Backend { return newFile(t, tmpfsDir(t)) }},
	{"block", newLoop},
	{"ram", func(t *testing.T) Backend {
		b, err := NewRAM(testSize, 512)
		return opened(t, b, err)
	}},
	{"ram4k", func(t *testing.T) Backend {
		b, err := NewRAM(testSize, 4096)
		return opened(t, b, err)
	}},
	{"intercepted", func(t *testing.T) Backend {
		b, err := NewRAM(testSize, 512)
		return Intercept(opened(t, b, err), func(Op, int64, int64) error { return nil })
	}},
}

func opened(t *testing.T, b Backend, err error) Backend {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

func newFile(t *testing.T, dir string) Backend {
	t.Helper()
	b, err := OpenFile(filepath.Join(dir, "disk"), FileOptions{CreateSize: testSize})
	return opened(t, b, err)
}

// tmpfsDir is a directory on a file system that has no FALLOC_FL_ZERO_RANGE.
func tmpfsDir(t *testing.T) string {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &st); err != nil || st.Type != unix.TMPFS_MAGIC {
		testenv.Skip(t, "a tmpfs on /dev/shm")
	}
	dir, err := os.MkdirTemp("/dev/shm", "rbd-backend-test")
	if err != nil {
		testenv.Skip(t, "a writable /dev/shm: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func newLoop(t *testing.T) Backend {
	t.Helper()
	testenv.Tools(t, "losetup")
	testenv.Root(t)
	image := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(image, make([]byte, testSize), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("losetup", "--find", "--show", image).Output()
	if err != nil {
		testenv.Skip(t, "a loop device: %v", err)
	}
	dev := strings.TrimSpace(string(out))
	t.Cleanup(func() {
		if err := exec.Command("losetup", "-d", dev).Run(); err != nil {
			t.Errorf("detach %s: %v", dev, err)
		}
	})
	b, err := OpenFile(dev, FileOptions{})
	return opened(t, b, err)
}

// TestModel protects the data: random requests of all kinds on every backend give
// what the same requests give on a slice.
func TestModel(t *testing.T) {
	for _, m := range makers {
		t.Run(m.name, func(t *testing.T) {
			b := m.make(t)
			a := b.Attributes()
			model := make([]byte, testSize)
			r := rand.New(rand.NewSource(1))
			for i := range 400 {
				bs := int64(a.BlockSize)
				off := r.Int63n(testSize/bs) * bs
				n := min((1+r.Int63n(300))*bs, testSize-off)
				if i%7 == 0 { // sometimes page-aligned, where memory and holes are freed
					off, n = off&^4095, min(64<<10, testSize-off&^4095)
				}
				part := model[off : off+n]
				var flags Flags
				if i%5 == 0 {
					flags |= FUA
				}
				if i%3 == 0 {
					flags |= Deallocate
				}
				var err error
				switch op := Op(r.Intn(5)); op {
				case OpRead:
					p := bytes.Repeat([]byte{0xEE}, int(n))
					if err = b.TryReadAt(p, off); errors.Is(err, ErrWouldBlock) {
						err = b.ReadAt(p, off)
					}
					if err == nil && !bytes.Equal(p, part) {
						t.Fatalf("step %d: read of %d at %d has other data", i, n, off)
					}
				case OpWrite:
					r.Read(part)
					if err = b.TryWriteAt(part, off, flags); errors.Is(err, ErrWouldBlock) {
						err = b.WriteAt(part, off, flags)
					}
				case OpFlush:
					err = b.Flush()
				case OpTrim:
					if err = b.Trim(off, n); a.ReadsZeroAfterTrim {
						clear(part)
					} else if err == nil {
						err = b.ReadAt(part, off)
					}
				case OpWriteZeroes:
					err = b.WriteZeroes(off, n, flags)
					clear(part)
				}
				if err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
			}
			all := make([]byte, testSize)
			if err := b.ReadAt(all, 0); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(all, model) {
				t.Fatal("the whole has other data than the model")
			}
		})
	}
}

// TestOutOfRange protects against access beyond the end, also where off+n wraps.
func TestOutOfRange(t *testing.T) {
	null, err := NewNull(testSize, 512)
	if err != nil {
		t.Fatal(err)
	}
	check := func(t *testing.T, b Backend) {
		for _, r := range []struct{ off, n int64 }{
			{testSize, 512}, {testSize - 512, 1024}, {0, testSize + 512}, {-512, 512}, {maxInt64 - 511, 512}, {maxInt64, 1},
		} {
			p := make([]byte, r.n)
			for op, err := range map[string]error{
				"read": b.ReadAt(p, r.off), "write": b.WriteAt(p, r.off, 0), "durable write": b.WriteAt(p, r.off, FUA),
				"trim": b.Trim(r.off, r.n), "zeroes": b.WriteZeroes(r.off, r.n, Deallocate),
				"try read": blocked(b.TryReadAt(p, r.off)), "try write": blocked(b.TryWriteAt(p, r.off, 0)),
			} {
				if !errors.Is(err, ErrOutOfRange) {
					t.Errorf("%s of %d at %d: %v", op, r.n, r.off, err)
				}
			}
		}
		if err := b.Trim(0, maxInt64); !errors.Is(err, ErrOutOfRange) {
			t.Errorf("trim of everything: %v", err)
		}
	}
	t.Run("null", func(t *testing.T) { check(t, null) })
	for _, m := range makers {
		t.Run(m.name, func(t *testing.T) { check(t, m.make(t)) })
	}
}

// blocked counts a Try that leaves the check to the blocking call as right.
func blocked(err error) error {
	if errors.Is(err, ErrWouldBlock) {
		return ErrOutOfRange
	}
	return err
}

// TestAttributes protects what hosts are told.
func TestAttributes(t *testing.T) {
	for _, m := range makers {
		t.Run(m.name, func(t *testing.T) {
			b := m.make(t)
			a := b.Attributes()
			if b.Size() != testSize {
				t.Errorf("size %d", b.Size())
			}
			persistent := m.name == "file" || m.name == "tmpfs" || m.name == "block"
			if a.ReadOnly || a.VolatileCache != persistent || a.TrimGranularity <= 0 {
				t.Errorf("%+v", a)
			}
			if size, err := b.Refresh(); err != nil || size != testSize {
				t.Errorf("refresh: %d, %v", size, err)
			}
		})
	}
}

// TestRAMFreesLargeRanges protects what lies around a large range that is given back in
// pieces, and whoever reads it afterwards.
func TestRAMFreesLargeRanges(t *testing.T) {
	const size = 3*ramRun + 5*ramStripe
	ram, err := NewRAM(size, 512)
	if err != nil {
		t.Fatal(err)
	}
	defer ram.Close()
	for _, c := range []struct{ off, n int64 }{{0, size}, {512, size - 1024}, {ramStripe, 2*ramRun + 512}, {ramStripe + 512, ramLocks * ramStripe}} {
		// Marks at the bounds of blocks, stripes, and pieces, on both sides.
		marks := []int64{0, 512, size - 512, size - 1024, c.off + c.n - 512}
		for at := int64(ramStripe); at < size; at += ramStripe {
			marks = append(marks, at-512, at)
		}
		if c.off > 0 {
			marks = append(marks, c.off-512)
		}
		if end := c.off + c.n; end < size {
			marks = append(marks, end)
		}
		mark, got, zero := bytes.Repeat([]byte{0xA5}, 512), make([]byte, 512), make([]byte, 512)
		for _, at := range marks {
			if err := ram.WriteAt(mark, at, 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := ram.Trim(c.off, c.n); err != nil {
			t.Fatal(err)
		}
		for _, at := range marks {
			want := mark
			if at >= c.off && at < c.off+c.n {
				want = zero
			}
			if err := ram.ReadAt(got, at); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("trim of %d bytes at %d: the block at %d is %#x…, want %#x…, %v", c.n, c.off, at, got[0], want[0], err)
			}
		}
	}
}

// TestRAMBlocksAreWhole protects readers of RAM from half-written blocks.
func TestRAMBlocksAreWhole(t *testing.T) {
	ram, err := NewRAM(256<<10, 4096)
	b := opened(t, ram, err)
	var writers, readers sync.WaitGroup
	stop := make(chan struct{})
	for w := range 2 {
		writers.Go(func() {
			p := bytes.Repeat([]byte{byte(w)}, 128<<10)
			for {
				select {
				case <-stop:
					return
				default:
					if err := b.WriteAt(p, 4096, 0); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for range 2 {
		readers.Go(func() {
			p := make([]byte, 128<<10)
			for range 300 {
				if err := b.ReadAt(p, 4096); err != nil {
					t.Error(err)
					return
				}
				for blk := p; len(blk) > 0; blk = blk[4096:] {
					if bytes.Count(blk[:4096], blk[:1]) != 4096 {
						t.Error("a block holds two writes")
						return
					}
				}
			}
		})
	}
	readers.Wait()
	close(stop)
	writers.Wait()
}

// TestTryDoesNotAllocate protects the hot path.
func TestTryDoesNotAllocate(t *testing.T) {
	for _, m := range makers[:5] {
		t.Run(m.name, func(t *testing.T) {
			b := m.make(t)
			p := make([]byte, 4096)
			if err := b.WriteAt(p, 0, 0); err != nil {
				t.Fatal(err)
			}
			if n := testing.AllocsPerRun(100, func() {
				_ = b.TryReadAt(p, 0)
				_ = b.TryWriteAt(p, 0, 0)
				_ = b.ReadAt(p, 0)
				_ = b.WriteAt(p, 0, 0)
			}); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}
