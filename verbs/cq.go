package verbs

import "context"

// CQAttr describes a completion queue.
type CQAttr struct {
	// Depth is how many completions the queue holds, 1..DeviceAttr.MaxCQE. The
	// caller sizes it for the work it posts; overrunning it is fatal for the QP
	// that does (CQ overrun).
	Depth int
	// Handler, if set, makes this a handled CQ (see the package comment). The
	// slice is valid until the handler returns.
	Handler func(batch []WC)
}

// CQ is a completion queue (ibv_cq).
type CQ interface {
	// Poll takes up to len(wcs) completions, oldest first, and says how many. It
	// never blocks. On a handled CQ it returns 0: the handler gets them all.
	Poll(wcs []WC) int
	// ReqNotify arms the queue for one event: the next completion that is added
	// ends one Wait (ibv_req_notify_cq). Completions already there don't: poll
	// after arming.
	ReqNotify() error
	// Wait blocks until an armed event fires or ctx ends (ibv_get_cq_event). It
	// returns nil, ctx.Err(), or ErrClosed.
	Wait(ctx context.Context) error
	// Destroy frees the queue; ErrBusy while a QP uses it. When it has returned,
	// no handler call is running or will start.
	Destroy() error
}
