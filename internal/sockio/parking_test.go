package sockio_test

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rbd/internal/sockio"
)

// A connection that is silent for longer and longer waits in the runtime's poller, and
// that produces no garbage either.
func TestLongWaitsDoNotAllocate(t *testing.T) {
	c := slowPeer(t, 8*time.Millisecond)
	iov := iovecs(make([]byte, 64))
	if n := testing.AllocsPerRun(20, func() {
		if _, err := c.Readv(iov); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per wait", n)
	}
}

// No wait is left asleep, whether the peer is just before or just after the moment when
// the waiter leaves its system call for the poller, and in both directions. A lost
// wake-up would be a disk that hangs.
func TestNoWakeUpIsLost(t *testing.T) {
	const (
		conns  = 16
		rounds = 150
	)
	done := make(chan error)
	for range conns {
		a, b := pair(t)
		iov := iovecs(make([]byte, 64))
		go func() { // b answers, now and then after its own pause
			for {
				if _, err := b.Readv(iov); errors.Is(err, io.EOF) {
					done <- nil
					return
				} else if err != nil {
					done <- err
					return
				}
				pause()
				if _, err := b.Write([]byte{0}); err != nil {
					done <- err
					return
				}
			}
		}()
		go func() {
			defer a.Close()
			iov := iovecs(make([]byte, 64))
			for range rounds {
				pause()
				if _, err := a.Write([]byte{0}); err != nil {
					done <- err
					return
				}
				if _, err := a.Readv(iov); err != nil {
					done <- err
					return
				}
			}
		}()
	}
	end := time.After(time.Minute)
	for range conns {
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-end:
			t.Fatal("a connection hangs")
		}
	}
}

// pause is about as long as a busy connection waits in a system call, half of the time.
func pause() {
	if rand.IntN(2) == 0 {
		time.Sleep(time.Millisecond + rand.N(2*time.Millisecond))
	}
}

// A writer that waits in the poller goes on each time when the peer has read, be it
// ever so little and late.
func TestSlowReader(t *testing.T) {
	a, b := pair(t)
	data := make([]byte, 4<<20)
	wrote := make(chan error, 1)
	go func() {
		_, err := a.Write(data)
		wrote <- err
	}()
	buf := make([]byte, 128<<10)
	for got := 0; got < len(data); {
		time.Sleep(4 * time.Millisecond)
		n, err := b.Readv(iovecs(buf))
		if err != nil {
			t.Fatal(err)
		}
		got += n
	}
	if err := <-wrote; err != nil {
		t.Fatal(err)
	}
}

// A process that is out of descriptors still waits for the connections that it has.
func TestWaitWithoutDescriptors(t *testing.T) {
	a, b := pair(t)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	none := unix.Rlimit{Cur: 0, Max: limit.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
	}()
	if f, err := os.Open("/dev/null"); err == nil {
		f.Close()
		t.Fatal("there are descriptors")
	}
	wrote := make(chan error)
	for range 3 {
		go func() {
			time.Sleep(10 * time.Millisecond)
			_, err := b.TryWritev(iovecs([]byte("x")), false)
			wrote <- err
		}()
		if n, err := a.Readv(iovecs(make([]byte, 8))); n != 1 || err != nil {
			t.Fatalf("read: %d, %v", n, err)
		}
		if err := <-wrote; err != nil {
			t.Fatal(err)
		}
	}
}

// When nobody waits, what arrives wakes nobody: the poller learns of a socket only what
// somebody waits for.
func TestArrivalsWakeNobody(t *testing.T) {
	a, b := pair(t)
	// Not even after a wait that has ended without anything.
	if err := a.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if err := a.WaitReadable(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("wait: %v", err)
	}
	if err := a.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	one := iovecs([]byte("x"))
	in := iovecs(make([]byte, 1))
	_, before := switches(t)
	const messages = 2000
	for range messages {
		if _, err := b.TryWritev(one, false); err != nil {
			t.Fatal(err)
		}
		if _, err := a.TryReadv(in); err != nil {
			t.Fatal(err)
		}
	}
	if _, after := switches(t); after-before > messages/4 {
		t.Errorf("threads have waited %d times during %d messages", after-before, messages)
	}
	if _, err := a.TryReadv(in); !errors.Is(err, sockio.ErrWouldBlock) {
		t.Fatalf("read: %v", err)
	}
}
