package sockio_test

import (
	"bytes"
	"errors"
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
func pair(t testing.TB) (a, b *sockio.Conn, ca, cb *net.UnixConn) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if ca, err = net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr)); err != nil {
		t.Fatal(err)
	}
	if cb, err = l.AcceptUnix(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ca.Close(); cb.Close() })
	if a, err = sockio.New(ca); err != nil {
		t.Fatal(err)
	}
	if b, err = sockio.New(cb); err != nil {
		t.Fatal(err)
	}
	return a, b, ca, cb
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
	a, b, _, _ := pair(t)
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
	a, b, ca, _ := pair(t)
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
		done <- ca.Close()
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
	a, _, ca, _ := pair(t)
	buf := make([]byte, 1)
	if _, err := a.TryReadv(iovecs(buf)); !errors.Is(err, sockio.ErrWouldBlock) {
		t.Fatalf("try: %v", err)
	}
	ca.SetReadDeadline(time.Now().Add(time.Millisecond))
	if _, err := a.Readv(iovecs(buf)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("deadline: %v", err)
	}
	ca.SetReadDeadline(time.Time{})
	time.AfterFunc(time.Millisecond, func() { ca.Close() })
	if _, err := a.Readv(iovecs(buf)); err == nil {
		t.Fatal("read on a closed socket succeeded")
	}
}

// Advance drops whole iovecs, then a part of the next.
func TestAdvance(t *testing.T) {
	for n, want := range map[int]string{0: "abcdef", 2: "cdef", 3: "def", 4: "ef", 6: ""} {
		a, b, ca, _ := pair(t)
		if left := sockio.Advance(iovecs([]byte("abc"), []byte("def")), n); len(left) > 0 {
			if _, err := a.TryWritev(left, false); err != nil {
				t.Fatal(err)
			}
		}
		ca.Close()
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
	a, b, _, _ := pair(t)
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
