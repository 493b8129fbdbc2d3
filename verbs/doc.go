// Package verbs is the RDMA programming interface of this project, in the
// words of libibverbs and librdmacm. It has no transport of its own: a
// [Provider] (verbs/iwarp, later rdma-core) implements the interfaces, and
// target and initiator are written against this package alone.
//
// # Objects
//
//	Provider ── Listen ──> Listener ── GetRequest ──> CMID ─┐
//	   └─────── ResolveAddr ────────────────────────> CMID ─┤ CreateQP
//	Device ── AllocPD ──> PD ── RegMR ──> MR                │
//	   └───── CreateCQ ─> CQ                                └──> QP
//
// A [CMID] (rdma_cm_id) is bound to a [Device] as soon as the caller holds it:
// by ResolveAddr on the active side, by the connection request on the passive
// one. The caller makes PD, CQ and MR on that device, makes the QP on the
// CMID, and connects or accepts. Parents outlive children: Dealloc and Destroy
// answer [ErrBusy] while something still uses the object, as ibv_dealloc_pd
// and ibv_destroy_cq do.
//
// # The way of a work request
//
//  1. PostSend and PostRecv copy the work requests, their SGE lists included,
//     into the queue and return. The slices may be reused at once; the memory
//     that the SGEs name belongs to the provider until the completion.
//  2. The provider checks keys, bounds and rights when it executes a request,
//     on the side that owns the memory. A violation completes the request with
//     an error status and moves the QP to [QPStateERR].
//  3. A completion ([WC]) goes to the send or receive CQ: for receives always,
//     for sends when [SendSignaled] is set (or the QP was made with SQSigAll),
//     and always when the status is an error. Work still queued when the QP
//     enters ERR completes with [WCWRFlushErr], in the order it was posted.
//  4. A one-sided operation of the peer (RDMA READ, RDMA WRITE) is served by
//     the provider; the program on that side runs no code and sees no WC.
//
// # Completion queues
//
// A CQ is used in one of three ways, fixed when it is made:
//
//   - polled: call Poll whenever convenient;
//   - waited for: ReqNotify, Poll once more, then Wait;
//   - handled: CQAttr.Handler gets batches of completions on a goroutine of the
//     provider, one call at a time per CQ. The handler may post to any QP; what
//     it posts in one call is sent in as few writes as possible. It must not
//     block, and must not call Destroy of the CQ or of a QP that uses it.
//
// # Threads
//
// All methods are safe for concurrent use. Work requests of concurrent PostSend
// calls are ordered as the calls are. PostSend may run the transport on the
// calling goroutine, but never waits for the peer and never calls a handler on
// the caller's goroutine, so it may be called with locks held.
//
// # Memory
//
// Regions hold memory from outside the Go heap: see [AllocMemory]. Addresses in
// work requests and on the wire are virtual addresses as uint64.
package verbs
