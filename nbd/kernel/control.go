package kernel

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/mdlayher/genetlink"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// ErrNoFamily is wrapped when the kernel does not offer the netlink family: the
// module is not loaded, or the process is not in the initial network namespace.
var ErrNoFamily = errors.New("the kernel does not offer its nbd netlink family")

// control is the netlink socket.
type control struct {
	conn   *genetlink.Conn
	family uint16
}

// dial opens a netlink socket and looks the family up.
func dial() (*control, error) {
	conn, err := genetlink.Dial(nil)
	if err != nil {
		return nil, fmt.Errorf("open a netlink socket: %w", err)
	}
	return newControl(conn)
}

func newControl(conn *genetlink.Conn) (*control, error) {
	f, err := conn.GetFamily(familyName)
	if errors.Is(err, os.ErrNotExist) {
		err = ErrNoFamily
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &control{conn: conn, family: f.ID}, nil
}

func (c *control) close() error { return c.conn.Close() }

// execute sends one command. Commands with a reply are not acknowledged besides.
func (c *control) execute(cmd uint8, data []byte, flags netlink.HeaderFlags) ([]genetlink.Message, error) {
	m := genetlink.Message{Header: genetlink.Header{Command: cmd, Version: familyVersion}, Data: data}
	msgs, err := c.conn.Execute(m, c.family, netlink.Request|flags)
	return msgs, explain(err)
}

// explain strips what the netlink package says about its own part.
func explain(err error) error {
	var op *netlink.OpError
	var errno unix.Errno
	switch {
	case !errors.As(err, &op):
		return err
	case op.Message != "":
		return fmt.Errorf("%w: %s", op.Err, op.Message)
	case errors.As(op.Err, &errno):
		return errno
	}
	return err
}

// connect attaches a device and answers its index.
func (c *control) connect(cfg *config) (int, error) {
	data, err := cfg.encode(true)
	if err != nil {
		return 0, err
	}
	msgs, err := c.execute(cmdConnect, data, 0)
	if err != nil {
		return 0, err
	}
	if len(msgs) == 0 {
		return 0, errors.New("the kernel did not name the device")
	}
	return decodeIndex(msgs[0].Data)
}

// reconfigure changes a device: its size, or its dead sockets. The kernel compares
// the identifier with that of the device, and refuses another with EINVAL.
func (c *control) reconfigure(cfg *config) error {
	data, err := cfg.encode(false)
	if err != nil {
		return err
	}
	_, err = c.execute(cmdReconfigure, data, netlink.Acknowledge)
	return err
}

// disconnect ends a device. All requests that it has end with EIO. The call is one
// system call that waits for the sockets of the device, so that it is left behind
// when ctx ends.
func (c *control) disconnect(ctx context.Context, index int) error {
	data, err := encodeIndex(index)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		_, err := c.execute(cmdDisconnect, data, netlink.Acknowledge)
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
