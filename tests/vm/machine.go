package vm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"rbd/tests/vm/control"
)

// bootTimeout bounds the time until the agent of a machine says hello. Software
// emulation on a busy machine needs 10 to 30 s.
const bootTimeout = 2 * time.Minute

// Machine is a running virtual machine.
type Machine struct {
	lab    *Lab
	config MachineConfig
	qemu   *exec.Cmd
	stderr *bytes.Buffer
	exited chan struct{}
	conn   net.Conn
	in     *json.Decoder
	// KernelVersion is what uname -r says inside.
	KernelVersion string
}

// emulationFault is on the console when an emulated processor has run into the
// breakpoint that another one just then put there to replace an instruction
// (text_poke_bp of the kernel): one boot of a hundred ends so.
const emulationFault = "Oops: int3"

// Boot starts a machine and waits for its agent, and does so once more after a fault
// of the emulation. The machine is killed when ctx is done, and when the calling
// process ends.
func (l *Lab) Boot(ctx context.Context, c MachineConfig) (*Machine, error) {
	m, err := l.boot(ctx, c)
	if err != nil && strings.Contains(err.Error(), emulationFault) {
		m, err = l.boot(ctx, c)
	}
	return m, err
}

func (l *Lab) boot(ctx context.Context, c MachineConfig) (*Machine, error) {
	socket := filepath.Join(l.Dir, c.Name+".agent")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	m := &Machine{lab: l, config: c, stderr: &bytes.Buffer{}, exited: make(chan struct{})}
	m.qemu = exec.CommandContext(ctx, "qemu-system-x86_64", l.qemuArgs(c, socket)...)
	m.qemu.Stderr = m.stderr
	if err := startWithParent(m.qemu, m.exited); err != nil {
		return nil, fmt.Errorf("start qemu: %w", err)
	}
	if err := m.greet(listener); err != nil {
		m.Kill()
		return nil, fmt.Errorf("boot machine %s: %w\n%s", c.Name, err, m.trouble())
	}
	return m, nil
}

// startWithParent starts a command that dies with this process, and closes exited
// at its end. The kernel sends the signal when the thread that started the child
// ends; therefore the thread is kept until then.
func startWithParent(cmd *exec.Cmd, exited chan<- struct{}) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // a machine is killed as a rule; how it ended says nothing
		}
		close(exited)
	}()
	return <-started
}

// greet waits for QEMU to connect the agent's port, and for the agent's hello.
func (m *Machine) greet(listener net.Listener) error {
	deadline := time.Now().Add(bootTimeout)
	if err := listener.(*net.UnixListener).SetDeadline(deadline); err != nil {
		return err
	}
	conn, err := listener.Accept()
	if err != nil {
		return err
	}
	m.conn, m.in = conn, json.NewDecoder(bufio.NewReader(conn))
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	var msg control.Message
	if err := m.in.Decode(&msg); err != nil {
		return fmt.Errorf("wait for the agent: %w", err)
	}
	if msg.Hello == nil {
		return errors.New("the agent's first message is no hello")
	}
	m.KernelVersion = msg.Hello.Kernel
	return nil
}

// Run runs a program in the guest and copies its output to out. The error tells
// that the machine could not say how it ended: it must be killed then.
func (m *Machine) Run(r control.Request, out io.Writer) (control.Result, error) {
	line, err := control.Encode(r)
	if err != nil {
		return control.Result{}, err
	}
	// What the agent needs to end a program that does not want to end.
	deadline := time.Now().Add(r.Timeout + 2*control.Grace + 15*time.Second)
	if err := m.conn.SetDeadline(deadline); err != nil {
		return control.Result{}, err
	}
	if _, err := m.conn.Write(line); err != nil {
		return control.Result{}, m.lost(err)
	}
	for {
		var msg control.Message
		if err := m.in.Decode(&msg); err != nil {
			return control.Result{}, m.lost(err)
		}
		if msg.Result != nil {
			return *msg.Result, nil
		}
		if _, err := out.Write(msg.Output); err != nil {
			return control.Result{}, err
		}
	}
}

// PowerOff shuts down a machine that systemd has booted, and returns how long that
// took. It is an error if the machine still runs after the limit.
func (m *Machine) PowerOff(limit time.Duration) (time.Duration, error) {
	start := time.Now()
	line, err := control.Encode(control.Request{Argv: []string{"systemctl", "poweroff"}, Timeout: limit})
	if err != nil {
		return 0, err
	}
	// The agent may be ended before it can answer.
	if _, err := m.conn.Write(line); err != nil {
		return 0, m.lost(err)
	}
	select {
	case <-m.exited:
		return time.Since(start), nil
	case <-time.After(limit):
		return time.Since(start), fmt.Errorf("machine %s is not off after %v\n%s", m.config.Name, limit, m.trouble())
	}
}

func (m *Machine) lost(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = errors.New("the machine hangs")
	}
	return fmt.Errorf("machine %s: %w\n%s", m.config.Name, err, m.trouble())
}

// Kill ends the machine at once.
func (m *Machine) Kill() {
	_ = m.qemu.Process.Kill() // it may have ended already
	<-m.exited
	if m.conn != nil {
		m.conn.Close()
	}
	os.Remove(filepath.Join(m.lab.Dir, m.config.Name+".agent"))
}

// trouble returns the end of the console and what QEMU said, for a failure's text.
func (m *Machine) trouble() string {
	const most = 6000
	console := m.console()
	if len(console) > most {
		console = console[len(console)-most:]
	}
	return fmt.Sprintf("console:\n%s\nqemu: %s", console, m.qemuSaid())
}

// console returns what the machine wrote to its serial console.
func (m *Machine) console() []byte {
	console, err := os.ReadFile(m.lab.console(m.config.Name))
	if err != nil {
		return []byte(err.Error())
	}
	return bytes.ReplaceAll(console, []byte("\r"), nil)
}

// qemuSaid returns QEMU's standard error, once it has ended.
func (m *Machine) qemuSaid() string {
	select {
	case <-m.exited:
		return m.stderr.String()
	case <-time.After(time.Second):
		return "still runs"
	}
}

// Interactive runs a machine with a shell on this process's terminal, until the
// shell ends.
func (l *Lab) Interactive(ctx context.Context, c MachineConfig) error {
	c.Shell = true
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", l.qemuArgs(c, "")...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}
