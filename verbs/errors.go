package verbs

import (
	"errors"
	"fmt"
)

// Errors that callers decide by. Providers wrap them with what was being done.
var (
	// ErrInvalid: an argument is out of its range, or of another device (EINVAL).
	ErrInvalid = errors.New("invalid argument")
	// ErrNoMemory: a queue or table is full, or memory is short (ENOMEM).
	ErrNoMemory = errors.New("no room left")
	// ErrBusy: the object still has users (EBUSY).
	ErrBusy = errors.New("still in use")
	// ErrState: the QP or CMID is in a state that does not allow the call.
	ErrState = errors.New("wrong state")
	// ErrClosed: the object was destroyed, or the listener closed.
	ErrClosed = errors.New("closed")
	// ErrNotSupported: the device can't do it (EOPNOTSUPP).
	ErrNotSupported = errors.New("not supported by the device")
	// ErrDisconnected: the connection ended, by either side.
	ErrDisconnected = errors.New("disconnected")
)

// PostError says which work request of a post was refused. Those before it are
// queued; it and those after it are not (bad_wr of ibv_post_send).
type PostError struct {
	// Op is "post send" or "post recv".
	Op string
	// BadWR is the index of the refused request.
	BadWR int
	// Err is the cause: ErrNoMemory for a full queue, ErrInvalid, ErrState.
	Err error
}

func (e *PostError) Error() string {
	return fmt.Sprintf("%s: work request %d: %v", e.Op, e.BadWR, e.Err)
}

func (e *PostError) Unwrap() error { return e.Err }

// RejectError is what Connect returns when the peer's program, or the peer's
// provider on its behalf, refused the connection (RDMA_CM_EVENT_REJECTED).
type RejectError struct {
	// PrivateData is what the peer gave to Reject; empty if it gave nothing or
	// the refusal came from below.
	PrivateData []byte
	// Reason is the provider's word for a refusal from below; empty when the
	// peer's program rejected.
	Reason string
}

func (e *RejectError) Error() string {
	if e.Reason != "" {
		return "connection rejected: " + e.Reason
	}
	return fmt.Sprintf("connection rejected by the peer (%d bytes of private data)", len(e.PrivateData))
}
