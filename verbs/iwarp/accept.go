package iwarp

import (
	"context"
	"fmt"
	"time"

	"rbd/verbs"
	"rbd/verbs/iwarp/internal/frame"
)

// Accept sends the MPA reply. The QP sends nothing more until the peer's first
// FPDU has come (RFC 5044, 7.1.2).
func (c *cmid) Accept(ctx context.Context, p verbs.ConnParam) (verbs.ConnParam, error) {
	q, err := c.begin(false)
	if err != nil {
		return verbs.ConnParam{}, fmt.Errorf("accept: %w", err)
	}
	inForce, err := c.accept(ctx, q, p)
	if err != nil {
		c.failed(q, err)
		return verbs.ConnParam{}, fmt.Errorf("accept %s: %w", c.tcp.RemoteAddr(), err)
	}
	return inForce, nil
}

func (c *cmid) accept(ctx context.Context, q *qp, p verbs.ConnParam) (inForce verbs.ConnParam, err error) {
	if err := checkParam(p); err != nil {
		return inForce, err
	}
	if pending(c.tcp) {
		return inForce, fmt.Errorf("peer sent more before the reply to its request: %w", frame.ErrMPA)
	}
	rep, inForce := replyFrame(c.request, p, c.crc)
	release := guard(ctx, c.tcp, c.dev.opts.replyTimeout)
	err = sendMPA(c.tcp, rep)
	if cerr := release(); cerr != nil {
		return inForce, cerr
	}
	if err != nil {
		return inForce, err
	}
	l := link{crc: rep.CRC, ird: powerOfTwo(int(rep.IRD)), ord: inForce.InitiatorDepth, held: true}
	return inForce, c.establish(q, l)
}

// Reject answers the request with a refusal and destroys the CMID.
func (c *cmid) Reject(privateData []byte) error {
	c.mu.Lock()
	ok := c.state == cmIdle && c.request != nil
	c.mu.Unlock()
	if !ok {
		return fmt.Errorf("reject: %w", verbs.ErrState)
	}
	if len(privateData) > maxPrivateData {
		return fmt.Errorf("reject: %d bytes of private data: %w", len(privateData), verbs.ErrInvalid)
	}
	// An error of the deadline shows up in the write.
	_ = c.tcp.SetWriteDeadline(time.Now().Add(c.dev.opts.requestTimeout))
	err := sendMPA(c.tcp, rejectFrame(c.request, privateData))
	if derr := c.Destroy(); err == nil {
		err = derr
	}
	return err
}

// rejectFrame answers a request with R. A request for markers gets the same.
func rejectFrame(req *frame.MPA, privateData []byte) *frame.MPA {
	return &frame.MPA{Reply: true, Revision: req.Revision, Enhanced: req.Enhanced, CRC: req.CRC, Reject: true, Private: privateData}
}
