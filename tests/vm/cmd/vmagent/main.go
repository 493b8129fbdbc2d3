// Command vmagent runs inside the virtual machine of the whole-system tests. It
// runs what the runner on the host asks for and sends back what that wrote, how it
// ended, and what the kernel logged meanwhile.
//
//	vmagent PORT
//
// PORT is the device of the virtio-serial port. The program ends when the other
// side of the port is gone.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"rbd/tests/vm/control"
)

func main() {
	fmt.Fprintln(os.Stderr, "vmagent:", serve(os.Args[1]))
	os.Exit(1)
}

// serve runs what it is told until something is wrong.
func serve(path string) error {
	port, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return fmt.Errorf("uname: %w", err)
	}
	out := &messages{port: port}
	if err := out.send(control.Message{Hello: &control.Hello{Kernel: unix.ByteSliceToString(uts.Release[:])}}); err != nil {
		return err
	}
	for in := bufio.NewReader(port); ; {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		var r control.Request
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("request %q: %w", line, err)
		}
		result := run(r, out)
		if err := out.send(control.Message{Result: &result}); err != nil {
			return err
		}
	}
}

// messages sends messages whole, from any goroutine.
type messages struct {
	mu   sync.Mutex
	port *os.File
}

func (m *messages) send(msg control.Message) error {
	b, err := control.Encode(msg)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	_, err = m.port.Write(b)
	return err
}

// Write sends a piece of a program's output.
func (m *messages) Write(p []byte) (int, error) {
	if err := m.send(control.Message{Output: p}); err != nil {
		return 0, err
	}
	return len(p), nil
}
