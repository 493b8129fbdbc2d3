package e2e

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// attempt runs one of our programs that is expected to refuse, and returns its
// exit code and what it wrote.
func attempt(t *testing.T, name string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p := start(t, name, args...)
	code = p.wait()
	for l := range p.lines {
		stdout += l + "\n"
	}
	return code, stdout, p.stderr.String()
}

// refused checks a refusal: the exit code, one line on standard error with the
// words, nothing on standard output.
func refused(t *testing.T, wantCode int, words []string, name string, args ...string) {
	t.Helper()
	code, out, errs := attempt(t, name, args...)
	lines := strings.Split(strings.TrimRight(errs, "\n"), "\n")
	last := lines[len(lines)-1]
	if code != wantCode || out != "" {
		t.Errorf("%s %q: exit code %d, want %d; stdout %q, stderr %q", name, args, code, wantCode, out, errs)
	}
	if len(lines) != 1 {
		t.Errorf("%s %q: %d lines on standard error: %q", name, args, len(lines), errs)
	}
	for _, w := range words {
		if !strings.Contains(last, w) {
			t.Errorf("%s %q: no %q in %q", name, args, w, last)
		}
	}
	if strings.Contains(errs, "goroutine ") || strings.Contains(errs, "panic") {
		t.Errorf("%s %q: %s", name, args, errs)
	}
}

// A target that can't serve says why in one line and leaves nothing behind.
func TestTargetRefusals(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, size int, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, make([]byte, size), mode); err != nil {
			t.Fatal(err)
		}
		return p
	}
	odd, good := file("odd", 4097, 0o600), file("good", 8192, 0o600)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct {
		code  int
		words []string
		args  []string
	}{
		{1, []string{dir + "/none", "no such file"}, []string{"-e", dir + "/none"}},
		{1, []string{dir, "directory"}, []string{"-e", dir}},
		{1, []string{odd, "4097", "multiple"}, []string{"-e", odd}},
		{1, []string{taken.Addr().String(), "in use"}, []string{"-e", good, "-l", taken.Addr().String()}},
		{1, []string{"rdma://127.0.0.1:4420", "RDMA device"}, []string{"-e", good, "-l", "rdma://127.0.0.1:4420"}},
		{2, []string{"foo"}, []string{"-e", good, "-l", "foo://127.0.0.1:1"}},
		{2, []string{"export"}, []string{}},
		{2, []string{"size"}, []string{"-e", "ram:lots"}},
		{2, []string{"nope"}, []string{"-e", good + ",nope=1"}},
		{2, []string{"nqn"}, []string{"-e", good + ",nqn=disk"}},
		{2, []string{"nqn"}, []string{"-e", good, "--allow-host", "me"}},
		{2, []string{"namespace 3"}, []string{"-e", "ram:1M,nsid=3", "-e", "ram:1M,nsid=3"}},
		{2, []string{"-v", "after"}, []string{"-e", good, "more", "-v"}},
		{2, []string{"port"}, []string{"-e", good, "-l", "127.0.0.1:http"}},
		{1, []string{dir + "/none.toml"}, []string{"--config", dir + "/none.toml"}},
		{2, []string{good, "two exports"}, []string{"-l", "127.0.0.1:0", "-e", good, "-e", good + ",nqn=nqn.2026-11.org.example:again"}},
	} {
		refused(t, c.code, c.words, "rbd-target", append([]string{"serve"}, c.args...)...)
	}
	if os.Geteuid() == 0 {
		return // root may read and write everything
	}
	refused(t, 1, []string{"permission denied"}, "rbd-target", "serve", "-e", file("secret", 4096, 0))
	refused(t, 1, []string{"read-only", "ro"}, "rbd-target", "serve", "-e", file("ro", 4096, 0o400))
}

// An initiator that can't connect says why in one line.
func TestInitiatorRefusals(t *testing.T) {
	dir := t.TempDir()
	tg := serve(t, "-e", "ram:1M,nqn=nqn.2026-11.org.example:x")
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, closedPort, _ := net.SplitHostPort(closed.Addr().String())
	closed.Close()
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer web.Close()
	go func() {
		for {
			c, err := web.Accept()
			if err != nil {
				return
			}
			c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			c.Close()
		}
	}()
	_, webPort, _ := net.SplitHostPort(web.Addr().String())
	socket := filepath.Join(dir, "taken.sock")
	busy, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	const nqn = "nqn.2026-11.org.example:x"
	for _, c := range []struct {
		code  int
		words []string
		args  []string
	}{
		{1, []string{"127.0.0.1:" + closedPort, "refused"}, []string{"-a", "127.0.0.1", "-s", closedPort, "-n", nqn}},
		{1, []string{"127.0.0.1:" + webPort, "RDMA"}, []string{"-a", "127.0.0.1", "-s", webPort, "-n", nqn}},
		{1, []string{"no.such.host.invalid"}, []string{"-a", "no.such.host.invalid", "-n", nqn}},
		{1, []string{"nqn.2026-11.org.example:other"}, []string{"-a", "127.0.0.1", "-s", tg.port, "-n", "nqn.2026-11.org.example:other"}},
		{1, []string{socket, "in use"}, []string{"-a", "127.0.0.1", "-s", tg.port, "-n", nqn, "--nbd-socket", socket}},
		{1, []string{"rdma://127.0.0.1", "RDMA device"}, []string{"-a", "rdma://127.0.0.1", "-s", tg.port, "-n", nqn}},
		{1, []string{"--nbd-device", "not"}, []string{"-a", "127.0.0.1", "-s", tg.port, "-n", nqn, "--nbd-device", "auto"}},
		{2, []string{"traddr"}, []string{"-n", nqn}},
		{2, []string{"nqn"}, []string{"-a", "127.0.0.1"}},
		{2, []string{"NQN"}, []string{"-a", "127.0.0.1", "-n", "disk"}},
		{2, []string{"port"}, []string{"-a", "127.0.0.1", "-s", "99999", "-n", nqn}},
		{2, []string{"queue"}, []string{"-a", "127.0.0.1", "-n", nqn, "-i", "0"}},
		{2, []string{"queue"}, []string{"-a", "127.0.0.1", "-n", nqn, "-Q", "1"}},
		{2, []string{"transport"}, []string{"-a", "127.0.0.1", "-n", nqn, "-t", "tcp"}},
		{2, []string{"-k", "after"}, []string{"-a", "127.0.0.1", "host", "-k", "3"}},
		{2, []string{"host"}, []string{"-a", "127.0.0.1", "-n", nqn, "-I", "not-a-uuid"}},
		{2, []string{"host"}, []string{"-a", "127.0.0.1", "-n", nqn, "-q", "me"}},
	} {
		refused(t, c.code, c.words, "rbd-initiator", append([]string{"connect"}, c.args...)...)
	}
	refused(t, 2, []string{"rw"}, "rbd-initiator", "bench", "-a", "127.0.0.1", "-s", tg.port, "-n", nqn, "--rw", "sideways")
	refused(t, 2, []string{"bs"}, "rbd-initiator", "bench", "-a", "127.0.0.1", "-s", tg.port, "-n", nqn, "--rw", "read", "--bs", "1000")
	tg.stop()
}

// A listener that others can reach serves nobody who was not allowed, and says
// so on both sides.
func TestHostAccess(t *testing.T) {
	const nqn, host = "nqn.2026-11.org.example:guarded", "nqn.2026-11.org.example:host-a"
	serveAll := func(args ...string) (*process, string) {
		p := start(t, "rbd-target", append([]string{"serve", "-l", "0.0.0.0:0", "-e", "ram:1M,nqn=" + nqn}, args...)...)
		l := p.line()
		return p, l[strings.LastIndexByte(l, ':')+1:]
	}
	guarded, port := serveAll("--allow-host", host)
	refused(t, 1, []string{nqn, "allow"}, "rbd-initiator", "connect", "-a", "127.0.0.1", "-s", port, "-n", nqn, "-q", "nqn.2026-11.org.example:host-b")
	for begun := time.Now(); !strings.Contains(guarded.stderr.String(), "host-b"); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > startTime {
			t.Fatalf("the target's log does not name the host: %s", guarded.stderr.String())
		}
	}
	d := (&target{guarded, port}).connect(nqn, "-q", host)
	d.stop()
	out, err := exec.Command(filepath.Join(programs, "rbd-initiator"), "discover", "-a", "127.0.0.1", "-s", port, "-q", "nqn.2026-11.org.example:host-b").Output()
	if err != nil || strings.Contains(string(out), nqn) {
		t.Errorf("a host that is not allowed sees the subsystem (%v): %s", err, out)
	}
	guarded.stop()
	open, port := serveAll("--allow-any-host")
	(&target{open, port}).connect(nqn, "-q", "nqn.2026-11.org.example:host-b").stop()
	open.stop()
}
