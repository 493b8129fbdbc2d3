package e2e

import (
	"bytes"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"rbd/internal/netfault"
	"rbd/internal/testenv"
)

const lostNQN = "nqn.2026-11.org.example:lost"

// serveOn starts a target on a port that another one had before.
func serveOn(t *testing.T, port string, args ...string) *target {
	t.Helper()
	p := start(t, "rbd-target", append([]string{"serve", "-l", "127.0.0.1:" + port}, args...)...)
	p.line()
	return &target{p, port}
}

// kill ends a program as a crash does.
func (p *process) kill() {
	p.cmd.Process.Kill()
	<-p.done
}

// connectTo makes a disk of what an address (host:port) serves.
func connectTo(t *testing.T, addr string, args ...string) *disk {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	d := &disk{process: start(t, "rbd-initiator", append([]string{"connect", "-a", host, "-s", port, "-n", lostNQN}, args...)...)}
	d.parse(d.line())
	return d
}

// load is a client that writes, reads back and compares.
type load struct {
	t    *testing.T
	out  bytes.Buffer
	done chan error
}

// verify starts fio on the disk, for about as many seconds.
func verify(d *disk, seconds int) *load {
	const iops = 2000
	l := &load{t: d.t, done: make(chan error, 1)}
	cmd := exec.Command("fio", "--name=v", "--ioengine=nbd", "--uri="+d.uri, "--rw=randrw", "--bs=4k", "--iodepth=16", "--size=64M",
		fmt.Sprintf("--rate_iops=%d,%d", iops, iops), fmt.Sprintf("--io_size=%d", 2*iops*seconds*4096),
		"--verify=crc32c", "--verify_state_save=0", "--verify_fatal=1")
	cmd.Stdout, cmd.Stderr = &l.out, &l.out
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	timer := time.AfterFunc(3*time.Minute, func() { cmd.Process.Kill() })
	go func() {
		l.done <- cmd.Wait()
		timer.Stop()
	}()
	return l
}

// running fails the test if the load has ended.
func (l *load) running() {
	l.t.Helper()
	select {
	case err := <-l.done:
		l.t.Fatalf("fio has ended: %v\n%s", err, l.out.String())
	default:
	}
}

// wait fails the test if the load has seen an error.
func (l *load) wait() {
	l.t.Helper()
	if err := <-l.done; err != nil || !strings.Contains(l.out.String(), "err= 0") {
		l.t.Fatalf("fio: %v\n%s", err, l.out.String())
	}
}

// times counts how often a program has logged something.
func (p *process) times(text string) int { return strings.Count(p.stderr.String(), text) }

// logs waits until a program has logged something so often.
func (p *process) logs(text string, times int, limit time.Duration) {
	p.t.Helper()
	for begun := time.Now(); p.times(text) < times; time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > limit {
			p.t.Fatalf("%q was logged %d times in %v, want %d: %s", text, p.times(text), limit, times, p.stderr.String())
		}
	}
}

// A target that is killed and started again, ten times under load, is a pause for
// the disk's clients, and every byte is there.
func TestReconnectTargetKilled(t *testing.T) {
	testenv.Tools(t, "fio")
	export := freshFile(t, 64<<20) + ",nqn=" + lostNQN
	tg := serve(t, "-e", export)
	d := connectTo(t, "127.0.0.1:"+tg.port, "-c", "1")
	l := verify(d, 12)
	for i := range 10 {
		time.Sleep(500 * time.Millisecond)
		l.running()
		tg.kill()
		d.logs("connection lost", i+1, 10*time.Second)
		tg = serveOn(t, tg.port, "-e", export)
		d.logs("reconnected", i+1, 10*time.Second)
	}
	l.running()
	l.wait()
	d.stop()
	tg.stop()
}

// read reads a block of the disk, and tells the outcome and how long it took.
func (d *disk) read() (time.Duration, error) {
	begun := time.Now()
	cmd := exec.Command("/usr/bin/python3", "-c", "import nbd,sys\nh=nbd.NBD()\nh.connect_uri(sys.argv[1])\nh.pread(4096,0)", d.uri)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return time.Since(begun), err
}

// A target that stays away longer than the loss time: EIO within it, at once from
// then on, and a disk that works when the target is back.
func TestReconnectLossTime(t *testing.T) {
	testenv.Tools(t, "nbdsh")
	export := freshFile(t, 1<<20) + ",nqn=" + lostNQN
	tg := serve(t, "-e", export)
	d := connectTo(t, "127.0.0.1:"+tg.port, "-c", "1", "-l", "3")
	if _, err := d.read(); err != nil {
		t.Fatal(err)
	}
	tg.kill()
	for _, limit := range [][2]time.Duration{{time.Second, 6 * time.Second}, {0, 2 * time.Second}} {
		took, err := d.read()
		if err == nil || !strings.Contains(err.Error(), "Input/output error") || took < limit[0] || took > limit[1] {
			t.Errorf("after %v: %v; want EIO after %v to %v", took, err, limit[0], limit[1])
		}
	}
	if n := d.times("target stays away"); n != 1 {
		t.Errorf("said %d times that the target stays away: %s", n, d.stderr.String())
	}
	tg = serveOn(t, tg.port, "-e", export)
	d.logs("reconnected", 1, 10*time.Second)
	if _, err := d.read(); err != nil {
		t.Error(err)
	}
	d.stop()
	tg.stop()
}

// SIGTERM while the target is away ends soon: requests that wait are answered, and
// the exit code and the error say that nothing was flushed.
func TestReconnectTerminated(t *testing.T) {
	testenv.Tools(t, "nbdsh")
	tg := serve(t, "-e", freshFile(t, 1<<20)+",nqn="+lostNQN)
	d := connectTo(t, "127.0.0.1:"+tg.port)
	tg.kill()
	d.logs("connection lost", 1, 10*time.Second)
	reads := make(chan error, 1)
	go func() {
		_, err := d.read()
		reads <- err
	}()
	d.logs("opened an export", 1, 10*time.Second)
	time.Sleep(200 * time.Millisecond)
	begun := time.Now()
	d.cmd.Process.Signal(syscall.SIGTERM)
	if code := d.wait(); code != 1 || time.Since(begun) > 5*time.Second || !strings.Contains(d.stderr.String(), "without a flush") {
		t.Errorf("exit code %d after %v: %s", code, time.Since(begun), d.stderr.String())
	}
	if err := <-reads; err == nil {
		t.Error("a read of a target that is away succeeded")
	}
}

// A network that loses everything for longer than keep-alive, and one that leaves
// the connection half open, are a pause too.
func TestReconnectNetwork(t *testing.T) {
	testenv.Tools(t, "fio")
	tg := serve(t, "-e", freshFile(t, 64<<20)+",nqn="+lostNQN)
	p, err := netfault.New("127.0.0.1:" + tg.port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	d := connectTo(t, p.Addr(), "-k", "1", "-c", "1")
	l := verify(d, 4)
	for i, fault := range []func(){
		func() { p.Freeze(); time.Sleep(4 * time.Second); p.Thaw() },
		p.HalfOpen,
		p.Cut,
	} {
		time.Sleep(500 * time.Millisecond)
		l.running()
		fault()
		d.logs("connection lost", i+1, 5*time.Second)
		d.logs("reconnected", i+1, 20*time.Second)
	}
	l.wait()
	if !strings.Contains(d.stderr.String(), "keep alive not answered") {
		t.Errorf("the first loss was not noticed by keep-alive: %s", d.stderr.String())
	}
	d.stop()
	tg.stop()
}

// Flags that make no sense are refused before anything is done.
func TestReconnectFlags(t *testing.T) {
	for flag, value := range map[string]string{"--ctrl-loss-tmo": "-2", "--reconnect-delay": "0", "--keep-alive-tmo": "-1"} {
		refused(t, 2, []string{value}, "rbd-initiator", "connect", "-a", "127.0.0.1", "-n", lostNQN, flag+"="+value)
	}
}
