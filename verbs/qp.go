package verbs

// QPState is the state of a queue pair (ibv_qp_state, same numbers).
type QPState uint8

// Queue pair states. Connection management makes the transitions from RESET to
// RTS; Modify makes the others.
const (
	QPStateReset QPState = iota
	// QPStateInit: receives may be posted.
	QPStateInit
	QPStateRTR
	// QPStateRTS: everything works.
	QPStateRTS
	// QPStateSQD: the send queue is drained: sends may be posted and wait there;
	// those already started complete.
	QPStateSQD
	// QPStateSQE exists for unreliable transports; connected QPs go to ERR.
	QPStateSQE
	// QPStateERR: all queued and later posted work completes with WCWRFlushErr.
	QPStateERR
)

func (s QPState) String() string {
	return name([]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}, int(s), "QPState")
}

// QPCap are the sizes of a queue pair (ibv_qp_cap). Zero SGE counts mean 1.
type QPCap struct {
	MaxSendWR, MaxRecvWR   int
	MaxSendSGE, MaxRecvSGE int
	MaxInlineData          int
}

// QPInitAttr describes a queue pair to be made (ibv_qp_init_attr). SendCQ and
// RecvCQ may be the same.
type QPInitAttr struct {
	SendCQ, RecvCQ CQ
	Cap            QPCap
	// SQSigAll asks for a completion of every send request.
	SQSigAll bool
}

// QP is a reliable connected queue pair (ibv_qp).
type QP interface {
	// Num is unique on the device while the QP lives, and in every WC.
	Num() uint32
	State() QPState
	// Modify moves the QP from RTS to SQD and back, and from any state to ERR.
	// Other transitions answer ErrState.
	Modify(QPState) error
	// PostSend queues send work, in order. In RESET, INIT and RTR it answers
	// ErrState, in ERR the work is taken and flushed. Errors are *PostError.
	PostSend(wrs []SendWR) error
	// PostRecv queues receives, from INIT on. Errors are *PostError.
	PostRecv(wrs []RecvWR) error
	// Destroy ends the QP without flushing: when it has returned, nothing of it is
	// executed and no completion of it will be added. A connection that is still
	// up is cut. Completions already in the CQ stay there.
	Destroy() error
}
