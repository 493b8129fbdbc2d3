package nbd

import (
	"context"
	"errors"
	"fmt"
	"syscall"
)

// Error is an error value of the protocol, as it goes to the client. A [Device]
// sets [Request.Err] to one of them, to an error that wraps one, or to an error
// that wraps a [syscall.Errno]; anything else reaches the client as [ErrIO].
type Error uint32

// The error values of the protocol.
const (
	ErrPermission   Error = 1   // NBD_EPERM: the export or the range is read-only
	ErrIO           Error = 5   // NBD_EIO
	ErrNoMemory     Error = 12  // NBD_ENOMEM
	ErrInvalid      Error = 22  // NBD_EINVAL
	ErrNoSpace      Error = 28  // NBD_ENOSPC
	ErrOverflow     Error = 75  // NBD_EOVERFLOW: the length is too large for this command
	ErrNotSupported Error = 95  // NBD_ENOTSUP: NBD_CMD_FLAG_FAST_ZERO can't be honoured
	ErrShutdown     Error = 108 // NBD_ESHUTDOWN
)

func (e Error) Error() string {
	switch e {
	case ErrPermission:
		return "operation not permitted"
	case ErrIO:
		return "input/output error"
	case ErrNoMemory:
		return "cannot allocate memory"
	case ErrInvalid:
		return "invalid argument"
	case ErrNoSpace:
		return "no space left on device"
	case ErrOverflow:
		return "value too large"
	case ErrNotSupported:
		return "operation not supported"
	case ErrShutdown:
		return "server is shutting down"
	}
	return fmt.Sprintf("NBD error %d", uint32(e))
}

// errorOf is the protocol's error value for what a device reports. The protocol
// allows no other values than those above ("Error values").
func errorOf(err error) Error {
	var e Error
	if errors.As(err, &e) && e != 0 {
		return e
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		switch errno {
		case syscall.EPERM, syscall.EROFS, syscall.EACCES:
			return ErrPermission
		case syscall.ENOMEM:
			return ErrNoMemory
		case syscall.EINVAL:
			return ErrInvalid
		case syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG:
			return ErrNoSpace
		case syscall.EOVERFLOW:
			return ErrOverflow
		case syscall.EOPNOTSUPP:
			return ErrNotSupported
		case syscall.ESHUTDOWN:
			return ErrShutdown
		}
		return ErrIO
	}
	if errors.Is(err, context.Canceled) {
		return ErrShutdown
	}
	return ErrIO
}
