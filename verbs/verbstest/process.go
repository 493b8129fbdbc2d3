package verbstest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"rbd/verbs"
)

// peerEnv names the address to which a copy of the test program connects, to be
// the peer of a case.
const peerEnv = "VERBSTEST_PEER"

// peerMemory is the size of the region that a peer process offers, with all
// rights; it is filled by Fill from peerSeed.
const (
	peerMemory = 1 << 20
	peerSeed   = 4711
	peerRecvs  = 16
)

// Process is a peer in a process of its own. Once connected its program does
// nothing: it waits for the end of its standard input.
type Process struct {
	// Server is this process's side of the connection.
	*Side
	// RemoteAddr and RKey name the peer's memory.
	RemoteAddr uint64
	RKey       uint32

	cmd *exec.Cmd
}

// Process starts a peer, and takes its connection. It is killed when the case ends.
func (e *Env) Process(set func(*SideOpts)) *Process {
	e.T.Helper()
	self, err := os.Executable()
	if err != nil {
		e.T.Fatal(err)
	}
	var run []string
	for _, name := range strings.Split(e.suite, "/") {
		run = append(run, "^"+regexp.QuoteMeta(name)+"$")
	}
	l := e.Listen()
	cmd := exec.Command(self, "-test.run="+strings.Join(run, "/"), "-test.count=1", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), peerEnv+"="+l.Addr().String())
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	stdin, err := cmd.StdinPipe()
	if err != nil {
		e.T.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		e.T.Fatalf("start a peer process: %v", err)
	}
	p := &Process{cmd: cmd}
	e.T.Cleanup(func() {
		p.Signal(syscall.SIGKILL)
		_ = stdin.Close()
		_ = cmd.Wait() // it tells of the kill
		if e.T.Failed() {
			e.T.Logf("output of the peer process: %s", output.Bytes())
		}
	})
	p.Side = e.Passive(l, set)
	data := p.ID.Request().PrivateData
	if len(data) < 12 {
		e.T.Fatalf("the peer process sent %d bytes of private data", len(data))
	}
	p.RemoteAddr, p.RKey = binary.BigEndian.Uint64(data), binary.BigEndian.Uint32(data[8:])
	p.Accept()
	return p
}

// Signal sends a signal to the peer: SIGSTOP, SIGCONT or SIGKILL. It waits until
// SIGSTOP has stopped it.
func (p *Process) Signal(s syscall.Signal) {
	p.e.T.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.e.T.Errorf("send %v to the peer process: %v", s, err)
	}
	if s != syscall.SIGSTOP {
		return
	}
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(p.cmd.Process.Pid, &ws, syscall.WUNTRACED, nil); err != nil || !ws.Stopped() {
		p.e.T.Errorf("wait until the peer process has stopped: status %#x, error %v", ws, err)
	}
}

// servePeer is what the copy does.
func servePeer(t *testing.T, f Fabric, address string) {
	addr, err := verbs.ParseAddr(address, verbs.DefaultPort)
	if err != nil {
		t.Fatal(err)
	}
	e := &Env{T: t, Fabric: f}
	id := e.Resolve(addr)
	e.Device = id.Device()
	s := e.side("peer process", id, nil)
	mem := s.Buffer(peerMemory, peerSeed)
	for i := range uint64(peerRecvs) {
		s.PostRecv(verbs.RecvWR{ID: i, SGEs: []verbs.SGE{mem.SGE(0, peerMemory)}})
	}
	data := binary.BigEndian.AppendUint64(nil, mem.Addr(0))
	s.param.PrivateData = binary.BigEndian.AppendUint32(data, mem.MR.RKey())
	if err := s.Connect(e.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		t.Fatal(err)
	}
}
