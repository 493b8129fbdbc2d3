package verbs

import (
	"context"
	"net"
)

// CM makes connections (librdmacm). Addresses are those of [Addr].
type CM interface {
	// ResolveAddr makes a CMID bound to the device that reaches the address
	// (rdma_resolve_addr and rdma_resolve_route). Nothing is sent to the peer.
	ResolveAddr(ctx context.Context, addr Addr) (CMID, error)
	// Listen accepts connection requests on an address; port 0 takes a free one.
	Listen(ctx context.Context, addr Addr) (Listener, error)
}

// ConnParam are the parameters of a connection (rdma_conn_param).
type ConnParam struct {
	// PrivateData travels with the request or the reply; at most
	// DeviceAttr.MaxPrivateData bytes. InfiniBand and RoCE don't carry its length:
	// the receiver sees zeros behind it.
	PrivateData []byte
	// ResponderResources is how many RDMA READs of the peer this side can hold.
	ResponderResources int
	// InitiatorDepth is how many RDMA READs this side wants to have outstanding.
	InitiatorDepth int
}

// Listener waits for connection requests (a listening rdma_cm_id).
type Listener interface {
	// GetRequest returns the next request (RDMA_CM_EVENT_CONNECT_REQUEST), ctx's
	// error, or ErrClosed. A peer that fails before its request is complete is not
	// seen here.
	GetRequest(ctx context.Context) (CMID, error)
	// Addr is the address with the port that was taken.
	Addr() Addr
	// Close ends listening. Requests that were not taken are dropped; connections
	// live on.
	Close() error
}

// CMID is one connection, being made or made (rdma_cm_id).
type CMID interface {
	Device() Device
	// CreateQP makes the connection's queue pair, in INIT: receives may be posted
	// before the connection is. pd, CQs and CMID must be of one device.
	CreateQP(pd PD, attr QPInitAttr) (QP, error)
	// Connect sends the request and waits for the answer (rdma_connect until
	// RDMA_CM_EVENT_ESTABLISHED). The result is the peer's view: its private data,
	// and its resources and depth after negotiation. Errors: *RejectError, an
	// error of the transport, or ctx.Err(). The QP is in RTS when it returns nil,
	// in ERR otherwise.
	Connect(ctx context.Context, p ConnParam) (ConnParam, error)
	// Request is what the peer sent, on the passive side; zero on the active one.
	Request() ConnParam
	// Accept answers the request (rdma_accept). It returns once the QP can be
	// used; ResponderResources and InitiatorDepth are lowered to what the peer
	// offered, and returned as they are in force.
	Accept(ctx context.Context, p ConnParam) (ConnParam, error)
	// Reject refuses the request (rdma_reject) and destroys the CMID.
	Reject(privateData []byte) error
	// Disconnect ends the connection: what was posted before and has begun is
	// finished if the transport can do so at once; the QP goes to ERR and flushes.
	// The peer learns of it. It does not wait.
	Disconnect() error
	// Disconnected is closed when the connection has ended for whatever reason
	// (RDMA_CM_EVENT_DISCONNECTED) and the QP is in ERR. Err tells why:
	// ErrDisconnected for an orderly end, else the cause in words. A peer whose QP
	// failed seems to disconnect in order where the transport has no word for it
	// (InfiniBand, RoCE).
	Disconnected() <-chan struct{}
	Err() error
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
	// Destroy frees the CMID and, if it is still there, its QP (rdma_destroy_id).
	Destroy() error
}
