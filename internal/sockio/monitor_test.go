package sockio_test

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rbd/internal/sockio"
)

// writerEnv makes the test program the one that writes a byte to its descriptor 3
// after each pause of this length, until nobody reads.
const writerEnv = "SOCKIO_TEST_WRITER"

func TestMain(m *testing.M) {
	length, err := time.ParseDuration(os.Getenv(writerEnv))
	if err != nil {
		os.Exit(m.Run())
	}
	for pause := unix.NsecToTimespec(int64(length)); ; {
		_ = unix.Nanosleep(&pause, nil)
		if _, err := unix.Write(3, []byte{0}); err != nil {
			os.Exit(0)
		}
	}
}

// While connections are busy, though slowly, the runtime's monitor does not look for
// goroutines that are stuck in system calls every 20 µs: that would cost more than the
// messages. With short pauses the readers wait in their system calls, with long ones
// in the runtime's poller.
func TestMonitorSleeps(t *testing.T) {
	for _, pause := range []time.Duration{1500 * time.Microsecond, 8 * time.Millisecond} {
		t.Run(pause.String(), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
			const (
				conns  = 4
				length = time.Second
			)
			done := make(chan int)
			for range conns {
				c := slowPeer(t, pause)
				go func() {
					n := 0
					iov := iovecs(make([]byte, 64))
					for end := time.Now().Add(length); time.Now().Before(end); n++ {
						if _, err := c.Readv(iov); err != nil {
							t.Error(err)
							break
						}
					}
					done <- n
				}()
			}
			before := switches(t)
			messages := 0
			for range conns {
				messages += <-done
			}
			// One to wait for each message, and as many for all that there is besides.
			got := switches(t) - before
			t.Logf("%d messages, %d switches", messages, got)
			if got > 2*messages+500 {
				t.Errorf("threads have waited %d times for %d messages", got, messages)
			}
		})
	}
}

// slowPeer is a connection on which another process sends, with pauses.
func slowPeer(t *testing.T, pause time.Duration) *sockio.Conn {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	near, far := os.NewFile(uintptr(fds[0]), "near"), os.NewFile(uintptr(fds[1]), "far")
	defer near.Close()
	defer far.Close()
	writer := exec.Command(os.Args[0])
	writer.Env = append(os.Environ(), writerEnv+"="+pause.String())
	writer.ExtraFiles = []*os.File{far}
	if err := writer.Start(); err != nil {
		t.Fatal(err)
	}
	nc, err := net.FileConn(near)
	if err != nil {
		t.Fatal(err)
	}
	c, err := sockio.New(nc.(*net.UnixConn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		_ = writer.Wait() // its next write fails
	})
	return c
}

// switches is how often the threads of this process have waited for something.
func switches(t *testing.T) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			continue // the thread has ended
		}
		for s := bufio.NewScanner(f); s.Scan(); {
			if v, ok := strings.CutPrefix(s.Text(), "voluntary_ctxt_switches:"); ok {
				k, _ := strconv.Atoi(strings.TrimSpace(v))
				n += k
			}
		}
		f.Close()
	}
	return n
}
