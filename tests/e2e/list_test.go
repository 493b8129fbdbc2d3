package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"rbd/internal/testenv"
	"rbd/nbd/nbdtest"
)

// initiatorIn runs a command of rbd-initiator to its end in the runtime folder of
// another process, and returns its standard output, standard error and exit code.
func initiatorIn(t *testing.T, folder string, args ...string) (out, errs string, code int) {
	t.Helper()
	c := exec.Command(filepath.Join(programs, "rbd-initiator"), args...)
	c.Env = append(os.Environ(), "RUNTIME_DIRECTORY="+folder)
	var o, e strings.Builder
	c.Stdout, c.Stderr = &o, &e
	if err := c.Run(); c.ProcessState == nil {
		t.Fatal(err)
	}
	return o.String(), e.String(), c.ProcessState.ExitCode()
}

// folder is the runtime folder that start gave the process.
func (p *process) folder() string {
	return strings.TrimPrefix(p.cmd.Env[len(p.cmd.Env)-1], "RUNTIME_DIRECTORY=")
}

type listed struct {
	Disk, NQN, State, Address string
	Listen                    []string
	Size                      uint64
	NSID                      uint32
	PID                       int
}

func list(t *testing.T, folder string) (all []listed) {
	t.Helper()
	out, errs, code := initiatorIn(t, folder, "list", "-o", "json")
	if code != 0 {
		t.Fatalf("list: exit code %d: %s", code, errs)
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return all
}

// What is connected is listed, found by a second start, and ended by disconnect.
func TestListAndDisconnect(t *testing.T) {
	tg := serve(t, "-e", "ram:1M,nqn=nqn.2026-11.io.rbd:a", "-e", "ram:2M,nqn=nqn.2026-11.io.rbd:a")
	d := tg.connect("nqn.2026-11.io.rbd:a")
	all := list(t, d.folder())
	if len(all) != 2 || all[0].Disk != d.uri || all[0].NQN != d.nqn || all[0].State != "live" || all[0].Size != 1<<20 ||
		all[0].PID != d.cmd.Process.Pid || all[1].NSID != 2 || !strings.HasSuffix(all[0].Address, ":"+tg.port) {
		t.Fatalf("listed %+v", all)
	}
	out, _, _ := initiatorIn(t, d.folder(), "list")
	if !strings.HasPrefix(out, "DISK ") || strings.Count(out, "\n") != 3 || !strings.Contains(out, "1.0 MiB  live ") {
		t.Errorf("the table is:\n%s", out)
	}
	out, errs, code := initiatorIn(t, d.folder(), "connect", "-a", "127.0.0.1", "-s", tg.port, "-n", d.nqn, "--idempotent")
	if code != 0 || !strings.HasPrefix(out, d.uri+"\t1048576\t512\t"+d.nqn+"\t1\n") {
		t.Errorf("second start: exit code %d, %q, %s", code, out, errs)
	}
	if _, errs, code := initiatorIn(t, d.folder(), "disconnect", "-n", "nqn.2026-11.io.rbd:b"); code != 1 || !strings.Contains(errs, "nqn.2026-11.io.rbd:b is not connected") {
		t.Errorf("disconnect of another: exit code %d, %s", code, errs)
	}
	if _, errs, code := initiatorIn(t, d.folder(), "disconnect", "-n", d.nqn); code != 0 {
		t.Errorf("disconnect: exit code %d, %s", code, errs)
	}
	if err := d.cmd.Process.Signal(syscall.Signal(0)); err == nil {
		time.Sleep(time.Second) // it has closed its socket, and is about to exit
	}
	if code := d.wait(); code != 0 {
		t.Errorf("the process ended with %d: %s", code, d.stderr.String())
	}
	if all := list(t, d.folder()); len(all) != 0 {
		t.Errorf("still listed: %+v", all)
	}
	tg.stop()
}

// openExport makes a client of export 1 on a Unix socket.
func openExport(t *testing.T, socket string) *nbdtest.Client {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	client, err := nbdtest.Open(conn, "1", nbdtest.Simple, false)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// A disk that an NBD client has open is not taken from it, but by force.
func TestDisconnectInUse(t *testing.T) {
	tg := serve(t, "-e", "ram:1M,nqn=nqn.2026-11.io.rbd:a")
	socket := filepath.Join(t.TempDir(), "nbd.sock")
	d := tg.connect("nqn.2026-11.io.rbd:a", "--nbd-socket", socket)
	client := openExport(t, socket)
	d.logs("opened an export", 1, startTime)
	want := fmt.Sprintf("in use: pid %d has NBD export 1 open", os.Getpid())
	for _, command := range []string{"disconnect-all", "disconnect -n " + d.nqn} {
		if _, errs, code := initiatorIn(t, d.folder(), strings.Fields(command)...); code != 1 || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, %s; want %q", command, code, errs, want)
		}
	}
	if r, err := client.Do(nbdtest.Request{Cmd: nbdtest.CmdRead, Length: 512}); err != nil || r.Error != 0 {
		t.Errorf("a client that was not asked: %+v, %v", r, err)
	}
	if _, errs, code := initiatorIn(t, d.folder(), "disconnect", "-n", d.nqn, "--force"); code != 0 {
		t.Errorf("disconnect --force: exit code %d, %s", code, errs)
	}
	if code := d.wait(); code != 0 {
		t.Errorf("the process ended with %d: %s", code, d.stderr.String())
	}
	tg.stop()
}

// Whoever ends a disk learns that it has not ended well: nothing could be flushed.
func TestDisconnectTellsLoss(t *testing.T) {
	tg := serve(t, "-e", "ram:1M,nqn=nqn.2026-11.io.rbd:a")
	d := tg.connect("nqn.2026-11.io.rbd:a")
	tg.cmd.Process.Kill()
	d.logs("connection lost", 1, startTime)
	if _, errs, code := initiatorIn(t, d.folder(), "disconnect", "-n", d.nqn); code != 1 || !strings.Contains(errs, "without a flush") || strings.Count(errs, "\n") != 1 {
		t.Errorf("disconnect: exit code %d, %s", code, errs)
	}
	if code := d.wait(); code != 1 {
		t.Errorf("the process ended with %d: %s", code, d.stderr.String())
	}
}

// What a killed process left in the runtime folder is removed by who looks next.
func TestListAfterKill(t *testing.T) {
	tg := serve(t, "-e", "ram:1M,nqn=nqn.2026-11.io.rbd:a")
	d := tg.connect("nqn.2026-11.io.rbd:a")
	if err := d.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-d.done
	if files, _ := os.ReadDir(d.folder()); len(files) == 0 {
		t.Fatal("a killed process left nothing")
	}
	if all := list(t, d.folder()); len(all) != 0 {
		t.Errorf("listed: %+v", all)
	}
	if files, _ := os.ReadDir(d.folder()); len(files) != 0 {
		t.Errorf("left behind: %v", files)
	}
	if _, errs, code := initiatorIn(t, d.folder(), "disconnect-all"); code != 0 {
		t.Errorf("disconnect-all of nothing: exit code %d, %s", code, errs)
	}
	tg.stop()
}

// Wrong usage of the new commands is told as such, and the reason why there is no
// kernel device names what to do.
func TestDeviceUsage(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "bad.toml")
	if err := os.WriteFile(config, []byte("nqn = \"nqn.2026-11.io.rbd:a\"\nnqm = 1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"disconnect", 2, "--device or --nqn is needed"},
		{"disconnect -d /dev/nbd0 -n nqn.2026-11.io.rbd:a", 2, "--device and --nqn exclude each other"},
		{"disconnect -d /dev/sda", 2, `"/dev/sda" is not /dev/nbdN`},
		{"disconnect -d /dev/nbd999999", 1, "no such nbd device"},
		{"disconnect -d nbd999999p1", 1, "/dev/nbd999999: no such nbd device"},
		{"connect -a 127.0.0.1 -n nqn.2026-11.io.rbd:a --nbd-device sda", 2, "neither auto nor /dev/nbdN"},
		{"connect -a 127.0.0.1 -n nqn.2026-11.io.rbd:a --wait -2", 2, "--wait -2"},
		{"connect --config " + config, 2, `there is no option "nqm"`},
		{"connect --config " + dir + "/none.toml", 1, "there is no file"},
	} {
		_, errs, code := initiatorIn(t, dir, strings.Fields(c.args)...)
		if code != c.code || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit code %d, %q; want %d and %q", c.args, code, errs, c.code, c.want)
		}
	}
}

// Who may not make kernel devices is told that, and not what else fails because of it.
func TestDeviceNeedsRoot(t *testing.T) {
	args := []string{filepath.Join(programs, "rbd-initiator"), "connect", "-a", "127.0.0.1", "-n", "nqn.2026-11.io.rbd:a", "--nbd-device", "auto"}
	if os.Geteuid() == 0 {
		testenv.Tools(t, "setpriv")
		args = append([]string{"setpriv", "--bounding-set=-sys_admin"}, args...)
	}
	c := exec.Command(args[0], args[1:]...)
	c.Env = append(os.Environ(), "RUNTIME_DIRECTORY=/dev/null/none")
	out, _ := c.CombinedOutput()
	if code := c.ProcessState.ExitCode(); code != 1 || !strings.Contains(string(out), "--nbd-device needs root (CAP_SYS_ADMIN)") {
		t.Errorf("exit code %d, %s", code, out)
	}
}

// A target that is not up yet is waited for.
func TestConnectWaits(t *testing.T) {
	tg := serve(t, "-e", "ram:1M,nqn=nqn.2026-11.io.rbd:a")
	port := tg.port
	tg.stop()
	d := start(t, "rbd-initiator", "connect", "-a", "127.0.0.1", "-s", port, "-n", "nqn.2026-11.io.rbd:a", "--wait", "60")
	time.Sleep(500 * time.Millisecond)
	late := start(t, "rbd-target", "serve", "-l", "127.0.0.1:"+port, "-e", "ram:1M,nqn=nqn.2026-11.io.rbd:a")
	if l := late.line(); !strings.HasPrefix(l, "listening") {
		t.Fatal(l)
	}
	if l := d.line(); !strings.HasSuffix(l, "\tnqn.2026-11.io.rbd:a\t1") {
		t.Errorf("ready with %q", l)
	}
	d.stop()
	late.stop()
}

// A file that the target grows is larger for its hosts.
func TestFileGrows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	tg := serve(t, "-e", path+",size=1M,nqn=nqn.2026-11.io.rbd:a")
	socket := filepath.Join(t.TempDir(), "nbd.sock")
	d := tg.connect("nqn.2026-11.io.rbd:a", "--nbd-socket", socket, "--nbd-listen", "127.0.0.1:0")
	if err := os.Truncate(path, 3<<20); err != nil {
		t.Fatal(err)
	}
	if all := list(t, d.folder()); len(all) != 1 || len(all[0].Listen) != 2 || all[0].Listen[0] != socket || !strings.HasPrefix(all[0].Listen[1], "127.0.0.1:") {
		t.Errorf("listed %+v, without its sockets", all)
	}
	for end := time.Now().Add(startTime); ; time.Sleep(100 * time.Millisecond) {
		if all := list(t, d.folder()); len(all) == 1 && all[0].Size == 3<<20 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("still %+v", list(t, d.folder()))
		}
	}
	d.stop()
	tg.stop()
}
