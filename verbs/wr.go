package verbs

import "fmt"

// SGE is a scatter/gather element (ibv_sge): Length bytes at Addr in the
// region LKey.
type SGE struct {
	Addr   uint64
	Length uint32
	LKey   uint32
}

// WROpcode is the kind of a send work request (ibv_wr_opcode).
type WROpcode uint8

// Send work request opcodes.
const (
	// WRSend consumes a receive of the peer.
	WRSend WROpcode = iota
	// WRSendWithInv is WRSend that also ends the peer's region InvalidateRKey.
	WRSendWithInv
	// WRRDMAWrite places the SGEs at RemoteAddr in the peer's region RKey.
	WRRDMAWrite
	// WRRDMARead fetches from RemoteAddr in the peer's region RKey into the SGEs.
	WRRDMARead
)

func (o WROpcode) String() string {
	return name([]string{"SEND", "SEND_WITH_INV", "RDMA_WRITE", "RDMA_READ"}, int(o), "WROpcode")
}

// SendFlags modify a send work request (ibv_send_flags).
type SendFlags uint8

const (
	// SendFence delays the request until all earlier RDMA READs of the QP are done.
	SendFence SendFlags = 1 << iota
	// SendSignaled asks for a completion also on success.
	SendSignaled
	// SendSolicited marks the message as solicited for the peer.
	SendSolicited
	// SendInline copies the payload at post time: the memory is free when the post
	// returns, and the SGEs' keys are not checked. At most MaxInline bytes.
	SendInline
)

// SendWR is a send work request (ibv_send_wr).
type SendWR struct {
	// ID comes back in the completion.
	ID     uint64
	Opcode WROpcode
	Flags  SendFlags
	SGEs   []SGE
	// RemoteAddr and RKey name the peer's memory for RDMA READ and WRITE.
	RemoteAddr uint64
	RKey       uint32
	// InvalidateRKey is the peer's key for WRSendWithInv.
	InvalidateRKey uint32
}

// RecvWR is a receive work request (ibv_recv_wr).
type RecvWR struct {
	ID   uint64
	SGEs []SGE
}

// name is the i-th name, or the type's name with the number.
func name(names []string, i int, kind string) string {
	if i >= 0 && i < len(names) && names[i] != "" {
		return names[i]
	}
	return fmt.Sprintf("%s(%d)", kind, i)
}
