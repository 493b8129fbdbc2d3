package backend

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"rbd/internal/testenv"
)

func writeFile(t *testing.T, path string, n int) string {
	t.Helper()
	if err := os.WriteFile(path, bytes.Repeat([]byte{7}, n), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOpenFileErrors protects the one clear line: cause, path, remedy; and that
// nothing is left behind.
func TestOpenFileErrors(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	writeFile(t, in("odd"), 1000)
	writeFile(t, in("short"), 100)
	writeFile(t, in("empty"), 0)
	writeFile(t, in("good"), 8192)
	if err := unix.Mkfifo(in("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		opts FileOptions
		want []string
	}{
		{in("missing"), FileOptions{}, []string{"no such file", "size="}},
		{dir, FileOptions{}, []string{"directory"}},
		{in("fifo"), FileOptions{}, []string{"neither a regular file nor a block device"}},
		{"/dev/null", FileOptions{}, []string{"neither a regular file nor a block device"}},
		{in("odd"), FileOptions{}, []string{"1000", "multiple of the block size 512", "nearest valid size is 1024"}},
		{in("odd"), FileOptions{BlockSize: 4096}, []string{"nearest valid size is 4096"}},
		{in("short"), FileOptions{}, []string{"nearest valid size is 512"}},
		{in("empty"), FileOptions{}, []string{"empty"}},
		{in("good"), FileOptions{BlockSize: 1024}, []string{"block size 1024"}},
		{in("good"), FileOptions{CreateSize: 4096}, []string{"exists with 8192 bytes", "size=4096"}},
		{in("new"), FileOptions{CreateSize: 1000}, []string{"nearest valid size is 1024"}},
		{in("new"), FileOptions{CreateSize: 4096, ReadOnly: true}, []string{"read-only"}},
		{in("new"), FileOptions{CreateSize: 1 << 62}, []string{"create", "too large"}},
		{in("no/new"), FileOptions{CreateSize: 4096}, []string{"create", "no such file or directory"}},
		{in("good/x"), FileOptions{}, []string{"not a directory"}},
	} {
		f, err := OpenFile(c.path, c.opts)
		if err == nil {
			f.Close()
			t.Errorf("%s %+v: no error", c.path, c.opts)
			continue
		}
		for _, w := range append(c.want, c.path) {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s %+v: %q does not say %q", c.path, c.opts, err, w)
			}
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q has several lines", err)
		}
	}
	if _, err := os.Stat(in("new")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file was left behind: %v", err)
	}
}

// TestOpenFileRights protects the advice to a user who may not write or read.
func TestOpenFileRights(t *testing.T) {
	testenv.Root(t)
	dir := t.TempDir()
	for d := dir; d != "/tmp" && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	readOnly, secret := writeFile(t, filepath.Join(dir, "ro"), 4096), writeFile(t, filepath.Join(dir, "secret"), 4096)
	if err := os.Chmod(readOnly, 0o444); err != nil {
		t.Fatal(err)
	}
	asNobody(t, func() {
		if _, err := OpenFile(readOnly, FileOptions{}); err == nil || !strings.Contains(err.Error(), "with ro") {
			t.Errorf("read-only file: %v", err)
		}
		if f, err := OpenFile(readOnly, FileOptions{ReadOnly: true}); err != nil {
			t.Errorf("read-only file with ro: %v", err)
		} else {
			f.Close()
		}
		if _, err := OpenFile(secret, FileOptions{}); err == nil || !strings.Contains(err.Error(), "permission denied") || strings.Contains(err.Error(), "with ro") {
			t.Errorf("unreadable file: %v", err)
		}
	})
}

// asNobody runs f on a thread without root's rights on files.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err := unix.Setfsuid(65534); err != nil {
			t.Errorf("give up root's rights: %v", err)
			return
		}
		f()
	}()
	<-done
}

// TestOneWriter protects a file from two targets that write to it.
func TestOneWriter(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "disk"), 4096)
	first, err := OpenFile(path, FileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(path, FileOptions{}); err == nil || !strings.Contains(err.Error(), "locked") {
		t.Errorf("second writer: %v", err)
	}
	reader, err := OpenFile(path, FileOptions{ReadOnly: true})
	if err != nil {
		t.Fatalf("reader beside a writer: %v", err)
	}
	defer reader.Close()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OpenFile(path, FileOptions{})
	if err != nil {
		t.Fatalf("after the first writer closed: %v", err)
	}
	again.Close()
}

// TestReadOnlyFile protects a read-only export from every change.
func TestReadOnlyFile(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "disk"), 8192)
	b, err := OpenFile(path, FileOptions{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	p := make([]byte, 512)
	for name, err := range map[string]error{
		"write": b.WriteAt(p, 0, 0), "try": b.TryWriteAt(p, 0, 0), "fua": b.WriteAt(p, 0, FUA), "trim": b.Trim(0, 512), "zeroes": b.WriteZeroes(0, 512, 0),
	} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := b.Flush(); err != nil {
		t.Errorf("flush: %v", err)
	}
	if got, _ := os.ReadFile(path); !bytes.Equal(got, bytes.Repeat([]byte{7}, 8192)) {
		t.Error("the file has changed")
	}
}

// TestCreateIsSparse protects size=: no storage until something is written, and
// the same command line works again.
func TestCreateIsSparse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	for range 2 {
		b, err := OpenFile(path, FileOptions{CreateSize: 1 << 30, BlockSize: 4096})
		if err != nil {
			t.Fatal(err)
		}
		if b.Size() != 1<<30 || b.Attributes().BlockSize != 4096 {
			t.Errorf("size %d, block size %d", b.Size(), b.Attributes().BlockSize)
		}
		b.Close()
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || st.Blocks > 64 {
		t.Errorf("%d blocks are allocated, %v", st.Blocks, err)
	}
}

// TestTrimFrees protects the purpose of Trim, and that WriteZeroes without
// Deallocate keeps the storage where the file system can.
func TestTrimFrees(t *testing.T) {
	b := newFile(t, t.TempDir()).(*File)
	blocks := func() int64 {
		var st unix.Stat_t
		if err := errors.Join(b.Flush(), unix.Fstat(b.fd, &st)); err != nil {
			t.Fatal(err)
		}
		return st.Blocks * 512
	}
	if err := b.WriteAt(bytes.Repeat([]byte{1}, testSize), 0, 0); err != nil {
		t.Fatal(err)
	}
	full := blocks()
	if err := b.WriteZeroes(0, testSize/4, 0); err != nil {
		t.Fatal(err)
	}
	if n := blocks(); n < full && !b.noZeroRange.Load() {
		t.Errorf("write zeroes freed %d bytes", full-n)
	}
	if err := b.WriteZeroes(0, testSize/4, Deallocate); err != nil {
		t.Fatal(err)
	}
	if err := b.Trim(testSize/2, testSize/2); err != nil {
		t.Fatal(err)
	}
	if n := blocks(); n > full/2 {
		t.Errorf("%d of %d bytes are still allocated", n, full)
	}
}

// TestZeroRangeIsNotTriedAgain protects tmpfs from a system call that fails for
// each request.
func TestZeroRangeIsNotTriedAgain(t *testing.T) {
	b := newFile(t, tmpfsDir(t)).(*File)
	if err := b.WriteZeroes(0, 4096, FUA); err != nil {
		t.Fatal(err)
	}
	if !b.noZeroRange.Load() {
		t.Error("tmpfs zeroes ranges, or it is not remembered that it does not")
	}
}

// TestShrunkFile protects readers from stale data when somebody cuts the file.
func TestShrunkFile(t *testing.T) {
	path := writeFile(t, filepath.Join(t.TempDir(), "disk"), 8192)
	b, err := OpenFile(path, FileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := os.Truncate(path, 4608); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 4096)
	if err := b.TryReadAt(p, 4096); err == nil {
		t.Error("try: no error")
	}
	if err := b.ReadAt(p, 4096); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("read: %v", err)
	}
	if err := os.Truncate(path, 5000); err != nil {
		t.Fatal(err)
	}
	if size, err := b.Refresh(); err != nil || size != 4608 || b.Size() != 4608 {
		t.Errorf("refresh: %d, %v", size, err)
	}
}

// TestLostWritesStayLost protects rule one of a disk: a flush that failed is never
// followed by one that says all is well.
func TestLostWritesStayLost(t *testing.T) {
	b := newFile(t, t.TempDir()).(*File)
	fail := true
	b.flushes.sync = func() error {
		if fail {
			return unix.EIO
		}
		return nil
	}
	if err := b.Flush(); !errors.Is(err, unix.EIO) {
		t.Fatalf("failing flush: %v", err)
	}
	fail = false
	if err := b.Flush(); !errors.Is(err, unix.EIO) {
		t.Errorf("flush after a failed one: %v", err)
	}
	p := make([]byte, 512)
	if err := b.WriteAt(p, 0, FUA); !errors.Is(err, unix.EIO) {
		t.Errorf("durable write after a failed flush: %v", err)
	}
	if err := errors.Join(b.WriteAt(p, 0, 0), b.ReadAt(p, 0)); err != nil {
		t.Errorf("plain write and read: %v", err)
	}
}

// TestFailedDurableWriteFailsFlushes protects those who wait for a flush while a
// FUA write takes the system's only report of a loss.
func TestFailedDurableWriteFailsFlushes(t *testing.T) {
	b := newFile(t, t.TempDir()).(*File)
	for i := range b.durable { // a description that can't write
		fd, err := unix.Open(b.path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(b.durable[i].fd)
		b.durable[i].fd = fd
	}
	if err := b.WriteAt(make([]byte, 512), 0, FUA); !errors.Is(err, unix.EBADF) {
		t.Fatalf("durable write: %v", err)
	}
	if err := b.Flush(); !errors.Is(err, unix.EBADF) {
		t.Errorf("flush: %v", err)
	}
}
