package initiator

import (
	"errors"
	"fmt"

	"rbd/verbs"
	"rbd/wire"
)

// Stage is how far the making of a connection has come.
type Stage uint8

// The stages, in their order.
const (
	// StageDial: resolve the address and make the RDMA connection of the admin queue.
	StageDial Stage = iota
	// StageConnect: the Fabrics Connect command of the admin queue.
	StageConnect
	// StageEnable: make the controller ready.
	StageEnable
	// StageIdentify: ask what the controller is.
	StageIdentify
	// StageQueues: make the I/O queues.
	StageQueues
	// StageNamespaces: ask for the namespaces.
	StageNamespaces
	// StageDiscovery: read the discovery log.
	StageDiscovery
)

func (s Stage) String() string {
	switch s {
	case StageDial:
		return "make the RDMA connection"
	case StageConnect:
		return "connect to the controller"
	case StageEnable:
		return "enable the controller"
	case StageIdentify:
		return "identify the controller"
	case StageQueues:
		return "make the I/O queues"
	case StageNamespaces:
		return "list the namespaces"
	case StageDiscovery:
		return "read the discovery log"
	}
	return fmt.Sprintf("Stage(%d)", uint8(s))
}

// ConnectError says why Connect or Discover did not succeed.
type ConnectError struct {
	Addr            verbs.Addr
	SubNQN, HostNQN string
	Stage           Stage
	// Err is the cause: a *CommandError for a refusal by an NVMe status, a
	// wire.RejectReason for one of the RDMA connection, ErrTimeout, or an error of
	// the transport.
	Err error
}

func (e *ConnectError) Error() string {
	return fmt.Sprintf("connect to %s at %s: %s", e.SubNQN, e.Addr, e.reason())
}

func (e *ConnectError) Unwrap() error { return e.Err }

// reason tells the cause in words, with a remedy where one is known.
func (e *ConnectError) reason() string {
	var cmd *CommandError
	if e.Stage != StageConnect && e.Stage != StageQueues || !errors.As(e.Err, &cmd) || !cmd.Fabrics {
		return fmt.Sprintf("%s: %v", e.Stage, e.Err)
	}
	param := wire.ParseInvalidParameter(cmd.DW0)
	switch cmd.Status.Code() {
	case wire.StatusConnectInvalidHost:
		return fmt.Sprintf("the target does not allow this host, %s, to use the subsystem; allow it there (rbd-target: --allow-host)", e.HostNQN)
	case wire.StatusConnectInvalidParameters:
		if param == (wire.InvalidParameter{InData: true, Offset: wire.ConnectDataSubNQN}) {
			return "the target does not know this subsystem NQN; see what it has with discover"
		}
		return fmt.Sprintf("the target did not accept the %s (%s)", param, cmd.Status.FabricsString())
	case wire.StatusConnectControllerBusy:
		return fmt.Sprintf("the target is busy, try again later (%s)", cmd.Status.FabricsString())
	case wire.StatusAuthenticationRequired:
		return "the target wants authentication, which is not supported"
	}
	return fmt.Sprintf("the target refused: %s", cmd.Status.FabricsString())
}

// isStatus says that a command was answered with an error status, so that the
// connection is all right.
func isStatus(err error) bool {
	var cmd *CommandError
	return errors.As(err, &cmd)
}

// isTransient says that the error is a status of the controller, after which the
// same command may succeed.
func isTransient(err error) bool {
	var cmd *CommandError
	return errors.As(err, &cmd) && !cmd.Status.DNR()
}
