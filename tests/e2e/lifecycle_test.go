package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"rbd/internal/testenv"
	"rbd/nbd/nbdtest"
)

// What the programs print when they are ready is an interface: scripts read it.
func TestReadyLines(t *testing.T) {
	dir := t.TempDir()
	file := freshFileIn(t, dir, 10<<20)
	tg := serve(t, "-e", file, "-e", "ram:1M,nqn=nqn.2026-11.org.example:two,block-size=4096", "-e", "null:1T,nqn=nqn.2026-11.org.example:two,nsid=9,ro",
		"-e", filepath.Join(dir, "new.img")+",size=1G,nqn=nqn.2026-11.org.example:new")
	for _, want := range []string{
		"nqn.2026-11.io.rbd:disk.img\t1\t10 MiB", "nqn.2026-11.org.example:two\t1\t1.0 MiB", "nqn.2026-11.org.example:two\t9\t1.0 TiB", "nqn.2026-11.org.example:new\t1\t1.0 GiB",
	} {
		if l := tg.line(); !strings.HasPrefix(l, want) {
			t.Errorf("export line %q, want %q", l, want)
		}
	}
	socket := filepath.Join(dir, "nbd.sock")
	d := tg.connect("nqn.2026-11.org.example:two", "--nbd-socket", socket)
	u, err := url.Parse(d.uri)
	if err != nil || u.Scheme != "nbd+unix" || u.Query().Get("socket") != socket || u.Path != "/1" {
		t.Errorf("URI %q (%v)", d.uri, err)
	}
	if d.size != "1048576" || d.blockSize != "4096" || d.nqn != "nqn.2026-11.org.example:two" || d.nsid != "1" {
		t.Errorf("%+v", d)
	}
	first := d.uri
	d.parse(d.line())
	if d.nsid != "9" || d.size != strconv.Itoa(1<<40) || !strings.Contains(d.uri, "/9?") {
		t.Errorf("second line: %+v", d)
	}
	testenv.Tools(t, "nbdinfo")
	if s := output(t, "nbdinfo", "--size", first); s != "1048576\n" {
		t.Errorf("namespace 1 has %q bytes", s)
	}
	if s := output(t, "nbdinfo", "--size", "nbd+unix:///?socket="+socket); s != "1048576\n" {
		t.Errorf("the default export has %q bytes", s)
	}
	if err := exec.Command("nbdinfo", "--is", "read-only", d.uri).Run(); err != nil {
		t.Errorf("namespace 9 is not read-only: %v", err)
	}
	if err := exec.Command("nbdinfo", "--is", "read-only", first).Run(); err == nil {
		t.Error("namespace 1 is read-only")
	}
	d.stop()
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
	tg.stop()
	for _, p := range []*process{tg.process, d.process} {
		if l, ok := <-p.lines; ok {
			t.Errorf("more on standard output: %q", l)
		}
	}
}

// Protects disks from a terminal that is closed: both programs end in good order.
func TestHangup(t *testing.T) {
	tg := serve(t, "-e", "ram:1M,nqn=nqn.2026-11.org.example:hangup")
	socket := filepath.Join(t.TempDir(), "nbd.sock")
	d := tg.connect("nqn.2026-11.org.example:hangup", "--nbd-socket", socket)
	for _, p := range []*process{d.process, tg.process} {
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		if code := p.wait(); code != 0 {
			t.Errorf("exit code %d: %s", code, p.stderr.String())
		}
	}
	if _, err := os.Lstat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// discover lists the subsystems, in the words of nvme-cli, and as JSON.
func TestDiscover(t *testing.T) {
	tg := serve(t, "-e", "ram:1M,nqn=nqn.2026-11.org.example:a", "-e", "ram:1M,nqn=nqn.2026-11.org.example:b")
	run := func(args ...string) string {
		out, err := exec.Command(filepath.Join(programs, "rbd-initiator"), append([]string{"discover", "-a", "127.0.0.1", "-s", tg.port}, args...)...).Output()
		if err != nil {
			t.Fatalf("discover: %v", err)
		}
		return string(out)
	}
	text := run()
	for _, want := range []string{"Discovery Log Number of Records", "=====Discovery Log Entry 0======", "trtype:", "traddr:", "nqn.2026-11.org.example:a", "nqn.2026-11.org.example:b", "trsvcid: " + tg.port} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	var log struct {
		Records []struct{ Subnqn, Traddr, Trsvcid string } `json:"records"`
	}
	if err := json.Unmarshal([]byte(run("-o", "json")), &log); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range log.Records {
		seen[r.Subnqn] = r.Traddr == "127.0.0.1" && r.Trsvcid == tg.port
	}
	if !seen["nqn.2026-11.org.example:a"] || !seen["nqn.2026-11.org.example:b"] {
		t.Errorf("%+v", log)
	}
	tg.stop()
}

// When the target dies and there is no reconnecting, every request ends with an
// error in bounded time, and the initiator ends, saying why.
func TestTargetDies(t *testing.T) {
	testenv.Tools(t, "qemu-io")
	tg := serve(t, "-e", "ram:64M,nqn=nqn.2026-11.org.example:dies")
	d := tg.connect("nqn.2026-11.org.example:dies", "--ctrl-loss-tmo=0")
	client := exec.Command("qemu-io", "-f", "raw", "-c", "write 0 1M", "-c", "sleep 1500", "-c", "read 0 1M", d.uri)
	var out bytes.Buffer
	client.Stdout, client.Stderr = &out, &out
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(700 * time.Millisecond)
	tg.cmd.Process.Kill()
	begun := time.Now()
	timer := time.AfterFunc(20*time.Second, func() { client.Process.Kill() })
	defer timer.Stop()
	client.Wait()
	if took := time.Since(begun); took > 15*time.Second || !strings.Contains(out.String(), "wrote 1048576/1048576") || strings.Contains(out.String(), "read 1048576/1048576") {
		t.Errorf("after %v: %s", took, out.String())
	}
	if code := d.wait(); code != 1 || !strings.Contains(d.stderr.String(), tg.port) {
		t.Errorf("exit code %d: %s", code, d.stderr.String())
	}
}

// cpuTicks is the CPU time that a process has used, in clock ticks.
func cpuTicks(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+2:]))
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return user + system
}

// Protects the users of disks from the end of whoever reads the log: without systemd's
// journal, which may be restarted and ends before the last file system is unmounted,
// every line fails with EPIPE.
func TestNobodyReadsTheLog(t *testing.T) {
	read, log, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read.Close()
	defer log.Close()
	const nqn = "nqn.2026-11.org.example:unread"
	p := startLogging(t, log, "rbd-target", "serve", "-v", "-l", "127.0.0.1:0", "-e", "ram:1M,nqn="+nqn)
	port, ok := strings.CutPrefix(p.line(), "listening iwarp://127.0.0.1:")
	if !ok {
		t.Fatal("the target does not listen")
	}
	d := startLogging(t, log, "rbd-initiator", "connect", "-v", "-a", "127.0.0.1", "-s", port, "-n", nqn)
	d.line()
	d.stop()
	p.stop()
}

// Connected programs without work use no CPU.
func TestIdle(t *testing.T) {
	tg := serve(t, "-e", "ram:1M,nqn=nqn.2026-11.org.example:idle")
	d := tg.connect("nqn.2026-11.org.example:idle")
	time.Sleep(500 * time.Millisecond)
	before := cpuTicks(t, tg.cmd.Process.Pid) + cpuTicks(t, d.cmd.Process.Pid)
	time.Sleep(4 * time.Second)
	if used := cpuTicks(t, tg.cmd.Process.Pid) + cpuTicks(t, d.cmd.Process.Pid) - before; used > 4 {
		t.Errorf("%d ticks of 10 ms in 4 s", used)
	}
	d.stop()
	tg.stop()
}

// Strangers on the target's port lose their own connection; a disk that is in
// use at the same time does not notice.
func TestStrangersOnTheWire(t *testing.T) {
	testenv.Tools(t, "fio")
	tg := serve(t, "-e", "ram:64M,nqn=nqn.2026-11.org.example:strangers")
	d := tg.connect("nqn.2026-11.org.example:strangers")
	stop := make(chan struct{})
	done := make(chan int)
	go func() {
		n := 0
		for {
			for _, text := range []string{"GET / HTTP/1.0\r\n\r\n", "MPA ID Req Frame\x10\x02\xff\xff", "MPA ID Req Frame\x10\x02\x00\x24\x00\x80", strings.Repeat("\xff", 70000), ""} {
				select {
				case <-stop:
					done <- n
					return
				default:
				}
				if c, err := net.Dial("tcp", "127.0.0.1:"+tg.port); err == nil {
					c.Write([]byte(text))
					c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
					c.Read(make([]byte, 100))
					c.Close()
					n++
				}
			}
		}
	}()
	text := output(t, "fio", "--name=v", "--ioengine=nbd", "--uri="+d.uri, "--rw=randrw", "--bs=4k", "--iodepth=16", "--size=64M", "--io_size=128M", "--verify=crc32c", "--verify_state_save=0", "--verify_fatal=1")
	close(stop)
	if n := <-done; n < 5 {
		t.Errorf("only %d strangers came", n)
	}
	if !strings.Contains(text, "err= 0") {
		t.Error(text)
	}
	d.stop()
	tg.stop()
}

// A completed flush, and a write with FUA, reach the file with the system calls
// that make them durable.
func TestDurableCalls(t *testing.T) {
	testenv.Tools(t, "strace", "nbdsh")
	testenv.Root(t)
	tg := serve(t, "-e", freshFile(t, 1<<20)+",nqn=nqn.2026-11.org.example:durable")
	d := tg.connect("nqn.2026-11.org.example:durable")
	trace := filepath.Join(t.TempDir(), "trace")
	st := exec.Command("strace", "-f", "-p", strconv.Itoa(tg.cmd.Process.Pid), "-e", "trace=fdatasync,fsync,pwritev2", "-o", trace)
	var errs syncBuffer
	st.Stderr = &errs
	if err := st.Start(); err != nil {
		t.Fatal(err)
	}
	for begun := time.Now(); !strings.Contains(errs.String(), "attached"); time.Sleep(20 * time.Millisecond) {
		if time.Since(begun) > startTime {
			st.Process.Kill()
			st.Wait()
			testenv.Skip(t, "the right to trace: %s", errs.String())
		}
	}
	output(t, "nbdsh", "-u", d.uri, "-c", "h.pwrite(bytearray(4096), 0)", "-c", "h.flush()", "-c", "h.pwrite(bytearray(4096), 4096, nbd.CMD_FLAG_FUA)")
	st.Process.Signal(os.Interrupt)
	st.Wait()
	b, err := os.ReadFile(trace)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(b, []byte("fdatasync(")) || !bytes.Contains(b, []byte("RWF_DSYNC")) {
		t.Errorf("no fdatasync or no RWF_DSYNC in:\n%s", b)
	}
	d.stop()
	tg.stop()
}

// An end that a frozen target holds up says what it waits for.
func TestSlowEndTold(t *testing.T) {
	tg := serve(t, "-e", "ram:1M,nqn=nqn.2026-11.io.rbd:a")
	socket := filepath.Join(t.TempDir(), "nbd.sock")
	d := tg.connect("nqn.2026-11.io.rbd:a", "--nbd-socket", socket, "-k", "0")
	client := openExport(t, socket)
	tg.cmd.Process.Signal(syscall.SIGSTOP)
	defer tg.cmd.Process.Signal(syscall.SIGCONT)
	reads := []nbdtest.Request{{Cmd: nbdtest.CmdRead, Length: 512, Cookie: 1}, {Cmd: nbdtest.CmdRead, Length: 512, Cookie: 2}}
	if err := client.Send(reads...); err != nil {
		t.Fatal(err)
	}
	time.Sleep(300 * time.Millisecond) // they are out
	d.cmd.Process.Signal(syscall.SIGTERM)
	d.logs("ending: waiting for the target to answer 2 requests", 1, startTime)
	tg.cmd.Process.Signal(syscall.SIGCONT)
	for range reads {
		if r, err := client.Recv(); err != nil || r.Error != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if code := d.wait(); code != 0 {
		t.Errorf("exit code %d: %s", code, d.stderr.String())
	}
	tg.stop()
}
