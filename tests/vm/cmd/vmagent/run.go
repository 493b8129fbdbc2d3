package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"rbd/tests/vm/control"
)

// run runs one request and says how it ended. A program that does not even end on
// SIGKILL, because it waits in the kernel, is left behind.
func run(r control.Request, out io.Writer) control.Result {
	start := time.Now()
	log, err := openKernelLog()
	if err != nil {
		return control.Result{Exit: -1, Error: err.Error()}
	}
	defer log.Close()
	res := execute(r, out)
	res.Duration = time.Since(start)
	res.KernelLog = log.read()
	return res
}

func execute(r control.Request, out io.Writer) control.Result {
	read, write, err := os.Pipe()
	if err != nil {
		return control.Result{Exit: -1, Error: err.Error()}
	}
	cmd := exec.Command(r.Argv[0], r.Argv[1:]...)
	cmd.Env = append(os.Environ(), r.Env...)
	cmd.Stdout, cmd.Stderr = write, write
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	write.Close()
	if err != nil {
		read.Close()
		return control.Result{Exit: -1, Error: err.Error()}
	}
	// A program left in the background may keep the pipe open: the output ends
	// with the program, not with the pipe.
	copied := make(chan struct{})
	go func() {
		io.Copy(out, read)
		close(copied)
	}()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	res := await(cmd, r.Timeout, ended)
	read.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	<-copied
	read.Close()
	return res
}

// await waits for the program's end, and brings it about when its time is over.
func await(cmd *exec.Cmd, timeout time.Duration, ended <-chan error) (res control.Result) {
	select {
	case err := <-ended:
		return exitResult(err)
	case <-time.After(timeout):
	}
	group := -cmd.Process.Pid
	syscall.Kill(group, syscall.SIGTERM)
	select {
	case err := <-ended:
		res = exitResult(err)
	case <-time.After(control.Grace):
		syscall.Kill(group, syscall.SIGKILL)
		select {
		case err := <-ended:
			res = exitResult(err)
		case <-time.After(control.Grace):
			res = control.Result{Exit: -1, Error: "does not end on SIGKILL:\n" + stacks(cmd.Process.Pid)}
		}
	}
	res.TimedOut = true
	return res
}

func exitResult(err error) control.Result {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return control.Result{}
	case !errors.As(err, &exit):
		return control.Result{Exit: -1, Error: err.Error()}
	}
	if ws := exit.Sys().(syscall.WaitStatus); ws.Signaled() {
		return control.Result{Exit: 128 + int(ws.Signal())}
	}
	return control.Result{Exit: exit.ExitCode()}
}

// stacks tells where in the kernel a process waits.
func stacks(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stack", pid))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// kernelLog reads what the kernel logs from now on.
type kernelLog struct{ fd int }

func openKernelLog() (kernelLog, error) {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return kernelLog{}, fmt.Errorf("open /dev/kmsg: %w", err)
	}
	if _, err := unix.Seek(fd, 0, unix.SEEK_END); err != nil {
		unix.Close(fd)
		return kernelLog{}, fmt.Errorf("seek /dev/kmsg: %w", err)
	}
	return kernelLog{fd}, nil
}

// read returns the records so far. A record is "PRIO,SEQ,MICROSECONDS,FLAGS;TEXT"
// and, below it, lines that begin with a space, which are left out.
func (l kernelLog) read() string {
	var b strings.Builder
	buf := make([]byte, 8192)
	for {
		n, err := unix.Read(l.fd, buf)
		if errors.Is(err, unix.EPIPE) { // records were overwritten before they were read
			continue
		}
		if err != nil || n <= 0 {
			return b.String()
		}
		record, _, _ := strings.Cut(string(buf[:n]), "\n")
		head, text, _ := strings.Cut(record, ";")
		var prio, seq, us int
		fmt.Sscanf(head, "%d,%d,%d", &prio, &seq, &us)
		fmt.Fprintf(&b, "<%d> [%d.%06d] %s\n", prio&7, us/1e6, us%1e6, text)
	}
}

func (l kernelLog) Close() { unix.Close(l.fd) }
