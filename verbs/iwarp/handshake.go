package iwarp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"rbd/verbs/iwarp/internal/frame"
)

// sendMPA writes the frame in one write: older Soft-iWARP mistakes the parts of
// a divided frame for frames.
func sendMPA(c net.Conn, m *frame.MPA) error {
	if _, err := c.Write(m.Append(nil)); err != nil {
		return fmt.Errorf("send MPA frame: %w", err)
	}
	return nil
}

// readMPA reads one frame and not a byte more. io.EOF means that the peer closed
// the connection before the first byte.
func readMPA(c net.Conn, reply bool) (*frame.MPA, error) {
	header := make([]byte, frame.MPAHeaderSize)
	if n, err := io.ReadFull(c, header); err != nil {
		if n > 0 && !errors.Is(err, os.ErrDeadlineExceeded) {
			// A short answer is a foreign one: show it.
			return nil, fmt.Errorf("%w: it ends after %q", frame.ErrNotMPA, header[:n])
		}
		return nil, err
	}
	m, err := frame.ParseMPA(header, reply)
	if err != nil {
		return m, err
	}
	private := make([]byte, m.PrivateSize())
	if _, err := io.ReadFull(c, private); err != nil {
		return nil, fmt.Errorf("private data: %w", err)
	}
	m.ParsePrivate(private)
	return m, nil
}

// guard lets ctx and a deadline end the I/O on c until release is called, which
// tells ctx's error if that was the cause.
func guard(ctx context.Context, c net.Conn, timeout time.Duration) (release func() error) {
	past := time.Unix(1, 0)
	// An error means that the connection is closed: then I/O ends anyway.
	_ = c.SetDeadline(time.Now().Add(timeout))
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		_ = c.SetDeadline(past)
	})
	return func() error {
		if !stop() {
			<-stopped
			return ctx.Err()
		}
		_ = c.SetDeadline(time.Time{})
		return nil
	}
}
