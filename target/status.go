package target

import (
	"errors"

	"golang.org/x/sys/unix"

	"rbd/target/backend"
	"rbd/wire"
)

// The statuses that are answered most, with Do Not Retry.
const (
	statusInvalidOpcode    = wire.StatusInvalidOpcode | wire.StatusDNR
	statusInvalidField     = wire.StatusInvalidField | wire.StatusDNR
	statusInvalidNamespace = wire.StatusInvalidNamespace | wire.StatusDNR
	statusSequenceError    = wire.StatusCommandSequenceError | wire.StatusDNR
	statusLBAOutOfRange    = wire.StatusLBAOutOfRange | wire.StatusDNR
	statusLengthInvalid    = wire.StatusDataSGLLengthInvalid | wire.StatusDNR
	statusWriteProtected   = wire.StatusNamespaceWriteProtected | wire.StatusDNR
)

// backendStatus is the status for an error of a backend. Lost media get Do Not
// Retry: the host's retries would only delay the report.
func backendStatus(err error, op wire.IOOpcode) wire.Status {
	switch {
	case err == nil:
		return wire.StatusSuccess
	case errors.Is(err, backend.ErrOutOfRange):
		return statusLBAOutOfRange
	case errors.Is(err, backend.ErrReadOnly), errors.Is(err, unix.EROFS):
		return statusWriteProtected
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
		return wire.StatusCapacityExceeded | wire.StatusDNR
	case errors.Is(err, errMiscompare):
		return wire.StatusCompareFailure | wire.StatusDNR
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOMEM):
		return wire.StatusCommandInterrupted
	case op == wire.IORead, op == wire.IOCompare, op == wire.IOVerify:
		return wire.StatusUnrecoveredRead | wire.StatusDNR
	}
	return wire.StatusWriteFault | wire.StatusDNR
}

// errMiscompare: a Compare found other data.
var errMiscompare = errors.New("data differs")

// errorLocation is the byte of the command that a status is about, for the error
// log; 0xFFFF where there is none.
func errorLocation(s wire.Status) uint16 {
	switch s.Code() {
	case wire.StatusInvalidOpcode:
		return 0
	case wire.StatusCommandIDConflict:
		return 2
	case wire.StatusInvalidNamespace, wire.StatusNamespaceWriteProtected:
		return 4
	case wire.StatusDataSGLLengthInvalid, wire.StatusSGLTypeInvalid, wire.StatusSGLOffsetInvalid:
		return 24
	case wire.StatusLBAOutOfRange:
		return 40
	}
	return 0xFFFF
}
