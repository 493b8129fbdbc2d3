package sockio_test

import (
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
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
	const (
		// A monitor that is kept awake looks 900 to 8200 times in a second, one that
		// sleeps 100 to 350 times. It may have reasons of its own to be awake, and on a
		// busy machine it has; but not each time.
		enough   = 800
		attempts = 5
	)
	for _, pause := range []time.Duration{1500 * time.Microsecond, 8 * time.Millisecond} {
		t.Run(pause.String(), func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(16))
			for n := range attempts {
				before, _ := switches(t)
				messages := readSlowly(t, pause)
				after, _ := switches(t)
				t.Logf("%d messages in a second, the monitor has looked %d times", messages, after-before)
				if after-before <= enough {
					return
				}
				if n+1 == attempts {
					t.Errorf("the monitor does not sleep: it has looked more than %d times in each of %d seconds", enough, attempts)
				}
			}
		})
	}
}

// readSlowly reads from four connections for a second, on each of which something
// arrives after each pause, and says how many messages came.
func readSlowly(t *testing.T, pause time.Duration) (messages int) {
	t.Helper()
	const conns = 4
	done := make(chan int)
	end := time.Now().Add(time.Second)
	for range conns {
		c := slowPeer(t, pause)
		go func() {
			n := 0
			iov := iovecs(make([]byte, 64))
			for ; time.Now().Before(end); n++ {
				if _, err := c.Readv(iov); err != nil {
					t.Error(err)
					break
				}
			}
			c.Close()
			done <- n
		}()
	}
	for range conns {
		messages += <-done
	}
	return messages
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

// switches is how often the runtime's monitor and all other threads of this process
// have waited for something. The monitor is the thread that the runtime starts before
// all others but the first, which has the process's number.
func switches(t *testing.T) (monitor, others int) {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	byThread := make(map[int]int)
	for _, task := range tasks {
		id, err := strconv.Atoi(task.Name())
		if err != nil {
			t.Fatal(err)
		}
		status, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/status", id))
		if err != nil {
			continue // the thread has ended
		}
		_, value, _ := strings.Cut(string(status), "\nvoluntary_ctxt_switches:")
		value, _, _ = strings.Cut(value, "\n")
		if byThread[id], err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
			t.Fatalf("voluntary switches of thread %d: %v", id, err)
		}
	}
	threads := slices.Sorted(maps.Keys(byThread))
	next := (slices.Index(threads, os.Getpid()) + 1) % len(threads) // numbers start anew at their end
	for id, n := range byThread {
		if id == threads[next] {
			monitor = n
		} else {
			others += n
		}
	}
	return monitor, others
}
