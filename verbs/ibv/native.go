package ibv

import (
	"rbd/verbs"
)

// library is rdma-core as the provider uses it: libibverbs and librdmacm through
// the C shim, or the double of the tests. Objects are handles; errors are those
// of the system ([golang.org/x/sys/unix.Errno]) or nil. No method waits for a
// peer, except connect on devices whose driver does.
type library interface {
	// devices are the contexts of all devices. They stay open.
	devices() ([]uintptr, error)
	queryDevice(context uintptr) (deviceInfo, error)
	// portMTU is the active MTU in bytes; 0 when it can't be asked.
	portMTU(context uintptr, port int) int
	// asyncEvent takes one event, or returns EAGAIN. handle is that of the QP or CQ.
	asyncEvent(context uintptr) (event asyncEvent, handle uint64, err error)

	allocPD(context uintptr) (uintptr, error)
	deallocPD(pd uintptr) error
	regMR(pd uintptr, mem []byte, access verbs.Access) (mrInfo, error)
	deregMR(mr uintptr) error
	createChannel(context uintptr) (channel uintptr, fd int, err error)
	destroyChannel(channel uintptr) error
	createCQ(context uintptr, depth int, handle uint64, channel uintptr) (uintptr, error)
	destroyCQ(cq uintptr) error
	// tryQP makes a QP and destroys it; maxInline is what the device gave.
	tryQP(pd uintptr, attr qpAttr) (maxInline int, err error)

	// poll takes completions. An error of the device counts as none.
	poll(cq uintptr, out []wcRecord) int
	reqNotify(cq uintptr) error
	// cqEvent takes one event from a channel, or returns EAGAIN.
	cqEvent(channel uintptr) error
	// postSend and postRecv say how many the device took, and why not the next.
	postSend(qp uintptr, wrs []sendRecord, sges []verbs.SGE) (int, error)
	postRecv(qp uintptr, wrs []recvRecord, sges []verbs.SGE) (int, error)
	setQPError(qp uintptr) error
	qpState(qp uintptr) (verbs.QPState, error)

	createEventChannel() (channel uintptr, fd int, err error)
	// cmEvent takes one event, or returns EAGAIN.
	cmEvent(channel uintptr, out *cmEvent) error
	createID(channel uintptr, handle uint64) (uintptr, error)
	setHandle(id uintptr, handle uint64)
	destroyID(id uintptr) error
	queryID(id uintptr) idInfo
	setTOS(id uintptr, tos uint8) error
	// setAFOnly lets an IPv6 wildcard be that of IPv6 alone.
	setAFOnly(id uintptr) error
	bind(id uintptr, addr sockaddr) error
	listen(id uintptr, backlog int) error
	// resolveAddr chooses the source itself if src is the zero value.
	resolveAddr(id uintptr, src, dst sockaddr, timeoutMS int) error
	resolveRoute(id uintptr, timeoutMS int) error
	createQP(id, pd uintptr, attr qpAttr) (qp uintptr, num uint32, err error)
	destroyQP(id uintptr)
	connect(id uintptr, p connRecord) error
	accept(id uintptr, p connRecord) error
	reject(id uintptr, data []byte) error
	disconnect(id uintptr) error
	// established tells the CM that a message came before its own (rdma_notify).
	established(id uintptr) error
}

// deviceInfo is what a device says of itself (ibv_query_device).
type deviceInfo struct {
	name                         string
	asyncFD, cmdFD               int
	iwarp                        bool
	vendorID                     uint32
	maxMRSize                    uint64
	maxQPWR, maxSGE, maxSGERead  int
	maxCQE, maxMR                int
	maxQPRdAtom, maxQPInitRdAtom int
	sendWithInv                  bool
}

type mrInfo struct {
	mr         uintptr
	lkey, rkey uint32
}

// qpAttr describes a QP to the library.
type qpAttr struct {
	sendCQ, recvCQ uintptr
	handle         uint64
	cap            verbs.QPCap
	sigAll         bool
}

// sendRecord is a send work request without pointers: struct shim_send.
type sendRecord struct {
	id         uint64
	remoteAddr uint64
	rkey       uint32 // or the key to invalidate
	sge, sges  uint32 // the first one's index, and how many
	opcode     uint16
	flags      uint16
}

// recvRecord is a receive work request: struct shim_recv.
type recvRecord struct {
	id        uint64
	sge, sges uint32
}

// wcRecord is a completion: struct shim_wc.
type wcRecord struct {
	id             uint64
	byteLen        uint32
	qpNum          uint32
	vendorErr      uint32
	invalidated    uint32
	status, opcode uint8
	flags          uint16
	_              uint32
}

// The numbers of libibverbs that differ from those of package verbs.
const (
	wrRDMAWrite   = 0
	wrSend        = 2
	wrRDMARead    = 4
	wrSendWithInv = 9
	wcRecv        = 1 << 7
	wcWithInv     = 1 << 3
)

// asyncEvent is an ibv_event_type.
type asyncEvent int

const (
	eventCQErr       asyncEvent = 0
	eventQPFatal     asyncEvent = 1
	eventQPReqErr    asyncEvent = 2
	eventQPAccessErr asyncEvent = 3
	eventCommEst     asyncEvent = 4
	eventDeviceFatal asyncEvent = 8
)

// cmEventType is an rdma_cm_event_type.
type cmEventType int32

const (
	cmAddrResolved cmEventType = iota
	cmAddrError
	cmRouteResolved
	cmRouteError
	cmConnectRequest
	cmConnectResponse
	cmConnectError
	cmUnreachable
	cmRejected
	cmEstablished
	cmDisconnected
	cmDeviceRemoval
)

// cmEvent is an event of the connection manager, copied.
type cmEvent struct {
	handle uint64  // of the CMID; of the listener for a request
	id     uintptr // of the request
	event  cmEventType
	status int32
	conn   connRecord
}

// connRecord is an rdma_conn_param.
type connRecord struct {
	responderResources, initiatorDepth uint8
	retryCount, rnrRetryCount          uint8
	privateData                        []byte
}

// idInfo is what an rdma_cm_id knows.
type idInfo struct {
	context  uintptr // 0 while it is bound to no device
	port     int
	src, dst sockaddr
}
