package command_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"rbd/cmd/internal/command"
)

// childEnv makes the test's program one that takes its time to end.
const childEnv = "RBD_TEST_ENDS_SLOWLY"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	command.Main(app(func(c *cli.Context) error {
		fmt.Fprintln(c.App.ErrWriter, "ready")
		<-c.Context.Done()
		fmt.Fprintln(c.App.ErrWriter, context.Cause(c.Context))
		_, err := io.Copy(io.Discard, os.Stdin)
		return err
	}))
}

// slow is a program that ends when the test lets it.
type slow struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
	end   func() error
}

// startSlow starts it through a shell that has done something before.
func startSlow(t *testing.T, before string) *slow {
	t.Helper()
	p := &slow{t: t, cmd: exec.CommandContext(t.Context(), "sh", "-c", before+` exec "$0" do`, os.Args[0])}
	p.cmd.Env = append(os.Environ(), childEnv+"=1")
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.lines, p.end = bufio.NewScanner(stderr), stdin.Close
	p.says("ready")
	return p
}

func (p *slow) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

func (p *slow) says(want string) {
	p.t.Helper()
	if !p.lines.Scan() || !strings.Contains(p.lines.Text(), want) {
		p.t.Fatalf("%q, want %q", p.lines.Text(), want)
	}
}

// ends waits for the program and returns its exit code.
func (p *slow) ends() int {
	p.t.Helper()
	for p.lines.Scan() { // whatever else it says
	}
	var exit *exec.ExitError
	if err := p.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		p.t.Fatal(err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// Protects disks from a terminal that is closed: the program ends in good order, however
// often it is told.
func TestHangup(t *testing.T) {
	p := startSlow(t, "")
	p.signal(syscall.SIGHUP)
	p.says("hangup signal received")
	p.signal(syscall.SIGHUP)
	p.end()
	if code := p.ends(); code != command.ExitDone {
		t.Errorf("exit code %d", code)
	}
}

// Protects what was started with nohup.
func TestHangupIgnored(t *testing.T) {
	p := startSlow(t, `trap "" HUP;`)
	p.signal(syscall.SIGHUP)
	p.signal(syscall.SIGTERM)
	p.says("terminated signal received")
	p.end()
	if code := p.ends(); code != command.ExitDone {
		t.Errorf("exit code %d", code)
	}
}

// Protects disks in use from systemd, which sends SIGTERM twice, and gives somebody at a
// terminal a way out.
func TestSignalsWhileEnding(t *testing.T) {
	p := startSlow(t, "")
	p.signal(syscall.SIGTERM)
	p.says("terminated signal received")
	time.Sleep(1100 * time.Millisecond)
	p.signal(syscall.SIGTERM)
	p.says("rbd-x: terminated while it is ending, which goes on")
	p.signal(syscall.SIGINT)
	p.says("rbd-x: interrupt while it was ending: ended at once")
	if code := p.ends(); code != command.ExitFailed {
		t.Errorf("exit code %d", code)
	}
}
