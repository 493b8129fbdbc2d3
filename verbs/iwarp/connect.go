package iwarp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"rbd/verbs"
	"rbd/verbs/iwarp/internal/frame"
)

// Connect makes the TCP connection, exchanges the MPA frames, and sends the
// first FPDU, an empty RDMA WRITE: only when it has come may the other side send.
func (c *cmid) Connect(ctx context.Context, p verbs.ConnParam) (verbs.ConnParam, error) {
	q, err := c.begin(true)
	if err != nil {
		return verbs.ConnParam{}, fmt.Errorf("connect: %w", err)
	}
	peer, err := c.connect(ctx, q, p)
	if err != nil {
		c.failed(q, err)
		return verbs.ConnParam{}, err
	}
	return peer, nil
}

func (c *cmid) connect(ctx context.Context, q *qp, p verbs.ConnParam) (peer verbs.ConnParam, err error) {
	if err := checkParam(p); err != nil {
		return peer, fmt.Errorf("connect: %w", err)
	}
	tcp, err := c.dial(ctx)
	if err != nil {
		return peer, err
	}
	if err := c.adopt(tcp); err != nil {
		tcp.Close()
		return peer, err
	}
	release := guard(ctx, tcp, c.dev.opts.replyTimeout)
	peer, l, err := c.exchange(tcp, p)
	if cerr := release(); cerr != nil {
		return peer, cerr
	}
	if err != nil {
		var reject *verbs.RejectError
		if errors.As(err, &reject) {
			return peer, err
		}
		return peer, fmt.Errorf("connect to %s: %w", tcp.RemoteAddr(), err)
	}
	return peer, c.establish(q, l)
}

// dial tries the peer's addresses in order.
func (c *cmid) dial(ctx context.Context) (*net.TCPConn, error) {
	var d net.Dialer
	var errs []error
	for _, a := range c.targets {
		conn, err := d.DialContext(ctx, "tcp", a.String())
		if err == nil {
			return conn.(*net.TCPConn), nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		errs = append(errs, err)
	}
	err := errors.Join(errs...)
	return nil, fmt.Errorf("connect: %w%s", err, hintFor(c.addr, err))
}

func (c *cmid) exchange(tcp *net.TCPConn, p verbs.ConnParam) (peer verbs.ConnParam, l link, err error) {
	req := requestFrame(p, c.crc)
	if err := sendMPA(tcp, req); err != nil {
		return peer, l, err
	}
	rep, err := readMPA(tcp, true)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return peer, l, fmt.Errorf("no MPA reply within %v", c.dev.opts.replyTimeout)
	case errors.Is(err, io.EOF), errors.Is(err, unix.ECONNRESET):
		return peer, l, &verbs.RejectError{Reason: "the peer closed the connection without an MPA reply"}
	case errors.Is(err, frame.ErrNotMPA):
		return peer, l, fmt.Errorf("the peer is not an iWARP one: %w", err)
	case err != nil:
		return peer, l, fmt.Errorf("read MPA reply: %w", err)
	case rep.Reject && rep.Markers:
		return peer, l, &verbs.RejectError{PrivateData: rep.Private, Reason: "the peer insists on MPA markers"}
	case rep.Reject:
		return peer, l, &verbs.RejectError{PrivateData: rep.Private}
	}
	peer, l, err = acceptReply(req, rep)
	if err != nil {
		return peer, l, err
	}
	first := frame.Tagged{Op: frame.OpWrite, Last: true, STag: 1}.Append(nil)
	if _, err := tcp.Write(frame.AppendTrailer(first, 0, l.crc)); err != nil {
		return peer, l, fmt.Errorf("send the first FPDU: %w", err)
	}
	return peer, l, nil
}

// Request is what the peer sent, on the passive side.
func (c *cmid) Request() verbs.ConnParam {
	if c.request == nil {
		return verbs.ConnParam{}
	}
	return peerParam(c.request)
}
