package iwarp

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rbd/internal/testenv"
)

// inNamespace tells a process of this test that it is the child, with a network of
// its own.
const inNamespace = "RBD_TEST_IWARP_NAMESPACE"

// Protects data from old commands when the network goes: once a host has given its
// connection up, no socket of it is left that would send them when the network is back.
func TestActiveLosesNetwork(t *testing.T) {
	if os.Getenv(inNamespace) != "" {
		loseNetwork(t)
		return
	}
	exe, err := os.Executable()
	must(t, err)
	child := exec.CommandContext(t.Context(), exe, "-test.v", "-test.run=^TestActiveLosesNetwork$")
	child.Env = append(os.Environ(), inNamespace+"=1")
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}}
	out, err := child.CombinedOutput()
	switch {
	case child.ProcessState == nil:
		testenv.Skip(t, "a network namespace: %v", err)
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case !strings.Contains(string(out), "--- PASS"):
		testenv.Skip(t, "rights in a network namespace: %s", out)
	}
}

// loseNetwork is the child.
func loseNetwork(t *testing.T) {
	setLoopback(t, unix.IFF_UP)
	// The first connection is given up before TCP has noticed, the second after.
	for _, wait := range []time.Duration{0, 300 * time.Millisecond} {
		a, b := tcpSides(t, "", backlogSize, nil, nil)
		b.recvBacklog(t)
		setLoopback(t, 0)
		a.sendBacklog(t)
		time.Sleep(wait)
		port := a.id.LocalAddr().(*net.TCPAddr).Port
		must(t, a.id.Disconnect())
		begin := time.Now()
		must(t, a.id.Destroy())
		if d := time.Since(begin); d > lingerTime/2 {
			t.Errorf("Destroy took %v", d)
		}
		sockets, err := os.ReadFile("/proc/net/tcp")
		must(t, err)
		if strings.Contains(string(sockets), fmt.Sprintf(": 0100007F:%04X ", port)) {
			t.Errorf("a socket of port %#x is left:\n%s", port, sockets)
		}
		setLoopback(t, unix.IFF_UP)
		must(t, b.id.Destroy())
	}
}

// setLoopback sets the flags of the loopback interface.
func setLoopback(t *testing.T, flags uint16) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	defer func() { must(t, unix.Close(fd)) }()
	ifr, err := unix.NewIfreq("lo")
	must(t, err)
	ifr.SetUint16(flags)
	err = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
	if errors.Is(err, unix.EPERM) {
		testenv.Skip(t, "the right to change interfaces")
	}
	must(t, err)
}
