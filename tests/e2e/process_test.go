package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// startTime bounds how long a program may take until it is ready or has ended.
const startTime = 20 * time.Second

// process is one of our programs, running.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	lines  chan string
	stderr syncBuffer
	done   chan struct{}
	err    error
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// start runs a program with its own folders for state, and kills it at the end
// of the test if it is still there.
func start(t *testing.T, name string, args ...string) *process {
	t.Helper()
	return startLogging(t, nil, name, args...)
}

// startLogging is start with another standard error than the process's buffer.
func startLogging(t *testing.T, log *os.File, name string, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(filepath.Join(programs, name), args...), lines: make(chan string, 100), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), "RUNTIME_DIRECTORY="+t.TempDir())
	p.cmd.Stderr = &p.stderr
	if log != nil {
		p.cmd.Stderr = log
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			p.lines <- s.Text()
		}
		close(p.lines)
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("%s %s:\n%s", name, strings.Join(args, " "), p.stderr.String())
		}
	})
	return p
}

// line returns the next line of standard output.
func (p *process) line() string {
	p.t.Helper()
	select {
	case l, ok := <-p.lines:
		if !ok {
			<-p.done
			p.t.Fatalf("%s ended (%v): %s", p.cmd.Path, p.err, p.stderr.String())
		}
		return l
	case <-time.After(startTime):
		p.t.Fatalf("%s printed nothing for %v: %s", p.cmd.Path, startTime, p.stderr.String())
	}
	return ""
}

// wait returns the exit code of a program that is to end by itself.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(startTime):
		p.t.Fatalf("%s does not end: %s", p.cmd.Path, p.stderr.String())
	}
	var exit *exec.ExitError
	if p.err != nil && !errors.As(p.err, &exit) {
		p.t.Fatal(p.err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// stop asks the program to end and checks that it does so cleanly.
func (p *process) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	if code := p.wait(); code != 0 {
		p.t.Fatalf("%s: exit code %d after SIGTERM: %s", p.cmd.Path, code, p.stderr.String())
	}
}

// target is a running rbd-target.
type target struct {
	*process
	port string
}

// serve starts a target with these exports on a free port of the loopback.
func serve(t *testing.T, args ...string) *target {
	t.Helper()
	p := start(t, "rbd-target", append([]string{"serve", "-l", "127.0.0.1:0"}, args...)...)
	l := p.line()
	port, ok := strings.CutPrefix(l, "listening iwarp://127.0.0.1:")
	if !ok {
		t.Fatalf("first line is %q", l)
	}
	return &target{p, port}
}

// disk is a running rbd-initiator and the first line that it printed.
type disk struct {
	*process
	uri, nqn  string
	size      string
	blockSize string
	nsid      string
}

// connect makes the target's subsystem a local disk.
func (tg *target) connect(nqn string, args ...string) *disk {
	tg.t.Helper()
	p := start(tg.t, "rbd-initiator", append([]string{"connect", "-a", "127.0.0.1", "-s", tg.port, "-n", nqn}, args...)...)
	d := &disk{process: p}
	d.parse(p.line())
	return d
}

func (d *disk) parse(line string) {
	d.t.Helper()
	f := strings.Split(line, "\t")
	if len(f) != 5 {
		d.t.Fatalf("line %q has %d fields, want 5", line, len(f))
	}
	d.uri, d.size, d.blockSize, d.nqn, d.nsid = f[0], f[1], f[2], f[3], f[4]
}

// output runs a client program and returns what it printed.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	// nbdsh runs the first python3 in the path, and only the system's has libnbd.
	cmd.Env = append(os.Environ(), "PATH=/usr/bin:"+os.Getenv("PATH"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(3*time.Minute, func() { cmd.Process.Kill() })
	err := cmd.Wait()
	timer.Stop()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out.String())
	}
	return out.String()
}

// freshFile makes a file of size bytes, sparse, in a folder of the test's own.
func freshFile(t *testing.T, size int64) string {
	t.Helper()
	return freshFileIn(t, t.TempDir(), size)
}

func freshFileIn(t *testing.T, dir string, size int64) string {
	t.Helper()
	name := filepath.Join(dir, "disk.img")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	return name
}
