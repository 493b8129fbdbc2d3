package sockio_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rbd/internal/sockio"
)

// pair is two connected unix stream sockets, each with its sockio side.
func pair(t testing.TB) (a, b *sockio.Conn) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ca, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	cb, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	if a, err = sockio.New(ca); err != nil {
		t.Fatal(err)
	}
	if b, err = sockio.New(cb); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func iovecs(bs ...[]byte) []unix.Iovec {
	var v []unix.Iovec
	for _, b := range bs {
		v = append(v, sockio.Iovec(b))
	}
	return v
}

// Scattered memory leaves and arrives in the order of the iovecs.
func TestGatherScatter(t *testing.T) {
	a, b := pair(t)
	if n, err := a.TryWritev(iovecs([]byte("head"), nil, []byte("payload")), true); n != 11 || err != nil {
		t.Fatalf("write: %d, %v", n, err)
	}
	x, y := make([]byte, 6), make([]byte, 10)
	if n, err := b.Readv(iovecs(x, y)); n != 11 || err != nil {
		t.Fatalf("read: %d, %v", n, err)
	}
	if string(x)+string(y[:5]) != "headpayload" {
		t.Fatalf("got %q %q", x, y[:5])
	}
}

// A full socket makes TryWritev answer at once and Writev wait; all bytes arrive once.
func TestFullSocket(t *testing.T) {
	a, b := pair(t)
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	sent := 0
	for {
		n, err := a.TryWritev(iovecs(data[sent:]), false)
		if errors.Is(err, sockio.ErrWouldBlock) {
			break
		}
		if err != nil || sent+n >= len(data) {
			t.Fatalf("socket never filled: %d, %v", sent+n, err)
		}
		sent += n
	}
	done := make(chan error, 1)
	go func() {
		iov := iovecs(data[sent:])
		for len(iov) > 0 {
			n, err := a.Writev(iov, false)
			if err != nil {
				done <- err
				return
			}
			iov = sockio.Advance(iov, n)
		}
		done <- a.Close()
	}()
	var got bytes.Buffer
	buf := make([]byte, 50000)
	for {
		n, err := b.Readv(iovecs(buf))
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got.Write(buf[:n])
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), data) {
		t.Fatalf("got %d bytes, want %d, or they differ", got.Len(), len(data))
	}
}

// Nothing there: TryReadv says so, Readv ends with the deadline or the close.
func TestEmptySocket(t *testing.T) {
	a, _ := pair(t)
	buf := make([]byte, 1)
	if _, err := a.TryReadv(iovecs(buf)); !errors.Is(err, sockio.ErrWouldBlock) {
		t.Fatalf("try: %v", err)
	}
	a.SetReadDeadline(time.Now().Add(time.Millisecond))
	if _, err := a.Readv(iovecs(buf)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("deadline: %v", err)
	}
	a.SetReadDeadline(time.Time{})
	time.AfterFunc(time.Millisecond, func() { a.Close() })
	if _, err := a.Readv(iovecs(buf)); err == nil {
		t.Fatal("read on a closed socket succeeded")
	}
}

// Advance drops whole iovecs, then a part of the next.
func TestAdvance(t *testing.T) {
	for n, want := range map[int]string{0: "abcdef", 2: "cdef", 3: "def", 4: "ef", 6: ""} {
		a, b := pair(t)
		if left := sockio.Advance(iovecs([]byte("abc"), []byte("def")), n); len(left) > 0 {
			if _, err := a.TryWritev(left, false); err != nil {
				t.Fatal(err)
			}
		}
		a.Close()
		buf := make([]byte, 8)
		k, err := b.Readv(iovecs(buf))
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if string(buf[:k]) != want {
			t.Errorf("after %d bytes %q is left, want %q", n, buf[:k], want)
		}
	}
}

// The data path may not produce garbage.
func TestNoAllocations(t *testing.T) {
	a, b := pair(t)
	out, in := iovecs(make([]byte, 64), make([]byte, 4096)), iovecs(make([]byte, 8192))
	if n := testing.AllocsPerRun(100, func() {
		if _, err := a.TryWritev(out, true); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Readv(in); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per round", n)
	}
}

// Close wakes who waits, lets nobody new in, and frees the descriptor once.
func TestClose(t *testing.T) {
	a, _ := pair(t)
	done := make(chan error, 2)
	go func() { _, err := a.Readv(iovecs(make([]byte, 1))); done <- err }()
	time.Sleep(5 * time.Millisecond)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Errorf("read ended with %v", err)
	}
	for name, err := range map[string]error{"close": a.Close(), "wait": a.WaitReadable(), "deadline": a.SetReadDeadline(time.Time{}), "end": a.CloseWrite()} {
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := a.TryWritev(iovecs([]byte("x")), false); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write: %v", err)
	}
}

// A deadline ends a wait that is in progress, and one that is lifted in time does not.
func TestDeadlines(t *testing.T) {
	a, b := pair(t)
	done := make(chan error, 1)
	go func() { _, err := a.Readv(iovecs(make([]byte, 1))); done <- err }()
	time.Sleep(5 * time.Millisecond)
	a.SetReadDeadline(time.Now().Add(time.Hour))
	a.SetReadDeadline(time.Now().Add(5 * time.Millisecond))
	if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read ended with %v", err)
	}
	if _, err := a.TryReadv(iovecs(make([]byte, 1))); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read after the deadline: %v", err)
	}
	a.SetReadDeadline(time.Time{})
	go func() { _, err := a.Readv(iovecs(make([]byte, 1))); done <- err }()
	if _, err := b.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Errorf("read after the deadline was lifted: %v", err)
	}
	big := make([]byte, 8<<20)
	b.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
	if n, err := b.Write(big); !errors.Is(err, os.ErrDeadlineExceeded) || n == 0 || n == len(big) {
		t.Errorf("%d bytes written, %v", n, err)
	}
}

// No descriptor is left when connections have come and gone, whatever was going
// on in them.
func TestNoDescriptorsLeft(t *testing.T) {
	count := func() int {
		d, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(d)
	}
	before := count()
	for range 20 {
		a, b := pair(t)
		done := make(chan struct{})
		go func() { a.Readv(iovecs(make([]byte, 1))); close(done) }()
		a.Close()
		b.Close()
		<-done
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

// Both sides may wait for long at the same time, and each may begin and end while the
// other does: what one does to the socket must not disturb the other.
func TestBothSidesWait(t *testing.T) {
	a, b := pair(t)
	full := make([]byte, 64<<10)
	for {
		if _, err := a.TryWritev(iovecs(full), false); errors.Is(err, sockio.ErrWouldBlock) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	const rounds = 2000
	side := func(deadline func(time.Time) error, wait func() error) error {
		for i := range rounds {
			if err := deadline(time.Now().Add(100 * time.Microsecond)); err != nil {
				return err
			}
			if err := wait(); !errors.Is(err, os.ErrDeadlineExceeded) {
				return fmt.Errorf("wait %d: %w", i, err)
			}
		}
		return nil
	}
	writer := make(chan error, 1)
	go func() { writer <- side(a.SetWriteDeadline, a.WaitWritable) }()
	if err := errors.Join(side(a.SetReadDeadline, a.WaitReadable), <-writer); err != nil {
		t.Fatal(err)
	}
	// And afterwards the socket is as it was: a busy reader waits in its system call.
	go func() { _, _ = b.TryWritev(iovecs([]byte("x")), false) }()
	if err := a.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	if n, err := a.Readv(iovecs(full)); n != 1 || err != nil {
		t.Fatalf("read: %d, %v", n, err)
	}
}
