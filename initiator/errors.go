package initiator

import (
	"errors"
	"fmt"

	"rbd/verbs"
	"rbd/wire"
)

// Errors that callers decide by; they come wrapped with their cause.
var (
	// ErrConnectionLost: the connection ended before the request was answered. A
	// write may or may not have been done.
	ErrConnectionLost = errors.New("connection to the target lost")
	// ErrClosed: the controller was closed by its owner.
	ErrClosed = errors.New("controller closed")
	// ErrReadOnly: the namespace can't be written.
	ErrReadOnly = errors.New("namespace is read-only")
	// ErrNotSupported: the controller has not the command.
	ErrNotSupported = errors.New("not supported by the controller")
	// ErrNoNamespace: the controller has no such active namespace.
	ErrNoNamespace = errors.New("no such namespace")
	// ErrUnaligned: a range is not made of whole blocks, or is empty.
	ErrUnaligned = errors.New("not a multiple of the block size")
	// ErrOutOfRange: a range ends behind the end of the namespace.
	ErrOutOfRange = errors.New("beyond the end of the namespace")
	// ErrTimeout: an answer did not come in time.
	ErrTimeout = errors.New("time limit exceeded")
)

// RangeError is a range that can't be asked for. Nothing was sent.
type RangeError struct {
	Op             Op
	NSID           uint32
	Offset, Length uint64
	Size           uint64 // of the namespace, in bytes
	BlockSize      uint32
	// Err is ErrUnaligned or ErrOutOfRange.
	Err error
}

func (e *RangeError) Error() string {
	return fmt.Sprintf("%s %d bytes at %d of namespace %d (%d bytes in blocks of %d): %v",
		e.Op, e.Length, e.Offset, e.NSID, e.Size, e.BlockSize, e.Err)
}

func (e *RangeError) Unwrap() error { return e.Err }

// StatusError is a request that the controller answered with an error status.
type StatusError struct {
	Op             Op
	NSID           uint32
	Offset, Length uint64 // of the command that failed
	Status         wire.Status
}

func (e *StatusError) Error() string {
	if e.Op == OpFlush {
		return fmt.Sprintf("flush namespace %d: %v", e.NSID, e.Status)
	}
	return fmt.Sprintf("%s %d bytes at %d of namespace %d: %v", e.Op, e.Length, e.Offset, e.NSID, e.Status)
}

// Unwrap gives the wire.Status, so that errors.Is compares with its constants.
func (e *StatusError) Unwrap() error { return e.Status }

// CommandError is an admin or Fabrics command that was answered with an error
// status.
type CommandError struct {
	// Command is its name, such as "identify".
	Command string
	Fabrics bool
	Status  wire.Status
	// DW0 is dword 0 of the answer.
	DW0 uint32
}

func (e *CommandError) Error() string {
	if e.Fabrics {
		return e.Command + ": " + e.Status.FabricsString()
	}
	return e.Command + ": " + e.Status.String()
}

// Unwrap gives the wire.Status, so that errors.Is compares with its constants.
func (e *CommandError) Unwrap() error { return e.Status }

// ProtocolError is something that a conforming peer does not send. The
// connection is cut.
type ProtocolError struct {
	What string
	CID  uint16
}

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("protocol violation: %s (CID 0x%04x)", e.What, e.CID)
}

// WorkError is a work request that the transport ended with an error.
type WorkError struct {
	// Work is "send" or "receive".
	Work      string
	Status    verbs.WCStatus
	VendorErr uint32
}

func (e *WorkError) Error() string {
	if e.VendorErr != 0 {
		return fmt.Sprintf("%s: %v (vendor error 0x%x)", e.Work, e.Status, e.VendorErr)
	}
	return fmt.Sprintf("%s: %v", e.Work, e.Status)
}
