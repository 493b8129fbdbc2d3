package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// diskMiB is the size of each disk.
const diskMiB = 512

// servers are the processes of one run; all are stopped at its end.
type servers struct {
	dir   string
	procs []*exec.Cmd
}

func (s *servers) start(name string, args ...string) (*bufio.Reader, error) {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "RUNTIME_DIRECTORY="+s.dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	s.procs = append(s.procs, cmd)
	return bufio.NewReader(out), nil
}

func (s *servers) stop() {
	for i := len(s.procs) - 1; i >= 0; i-- {
		cmd := s.procs[i]
		_ = cmd.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		timer.Stop()
	}
}

// ours starts target and initiator and returns the disk's URI.
func (s *servers) ours(bin string) (string, error) {
	const nqn = "nqn.2026-11.io.rbd:bench"
	out, err := s.start(filepath.Join(bin, "rbd-target"), "serve", "-l", "127.0.0.1:0", "-e", fmt.Sprintf("ram:%dM,nqn=%s", diskMiB, nqn))
	if err != nil {
		return "", err
	}
	line, err := out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("read the target's address: %w", err)
	}
	addr, err := net.ResolveTCPAddr("tcp", strings.TrimPrefix(strings.TrimSpace(line), "listening iwarp://"))
	if err != nil {
		return "", fmt.Errorf("the target's first line %q: %w", line, err)
	}
	out, err = s.start(filepath.Join(bin, "rbd-initiator"), "connect", "-a", "127.0.0.1", "-s", fmt.Sprint(addr.Port), "-n", nqn, "--nbd-socket", filepath.Join(s.dir, "ours.sock"))
	if err != nil {
		return "", err
	}
	line, err = out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("read the disk's URI: %w", err)
	}
	uri, _, _ := strings.Cut(line, "\t")
	return uri, nil
}

// oneHop starts nbdkit's memory plugin on TCP, twoHops another nbdkit before it.
func (s *servers) oneHop() (uri string, err error) {
	port, err := freePort()
	if err != nil {
		return "", err
	}
	if _, err := s.start("nbdkit", "-f", "-i", "127.0.0.1", "-p", port, "memory", fmt.Sprintf("%dM", diskMiB)); err != nil {
		return "", err
	}
	return "nbd://127.0.0.1:" + port, waitFor("tcp", "127.0.0.1:"+port)
}

func (s *servers) twoHops() (uri string, err error) {
	behind, err := s.oneHop()
	if err != nil {
		return "", err
	}
	socket := filepath.Join(s.dir, "nbdkit.sock")
	if _, err := s.start("nbdkit", "-f", "-U", socket, "nbd", "uri="+behind); err != nil {
		return "", err
	}
	return "nbd+unix:///?socket=" + socket, waitFor("unix", socket)
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

func waitFor(network, addr string) error {
	for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		c, err := net.Dial(network, addr)
		if err == nil {
			return c.Close()
		}
		if time.Since(begun) > 10*time.Second {
			return fmt.Errorf("wait for a server: %w", err)
		}
	}
}
