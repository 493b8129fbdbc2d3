// Package initiator is an NVMe host over RDMA: it discovers subsystems, connects
// to one, and makes its namespaces disks for Go programs.
//
//	entries, err := initiator.Discover(ctx, provider, addr, initiator.Options{})
//	ctrl, err := initiator.Connect(ctx, provider, addr, initiator.Options{SubNQN: nqn})
//	disk, err := ctrl.Namespace(1)
//	err = disk.WriteAt(ctx, p, off, initiator.FUA)
//	err = ctrl.Close(ctx)
//
// There are two ways to do I/O. The methods of [Namespace] block, copy, and heed
// contexts. Owners of many requests submit [Request] values with buffers from
// [Controller.Buffers] to a [Queue] and are called back in batches: nothing is
// copied or allocated, and no goroutine is switched to.
//
// # The way of a request
//
//  1. Queue.Submit checks the request against its namespace and puts it in the
//     queue's line.
//  2. Each request at the head of the line gets a free slot, which is its place
//     in the queue of the controller. Its command capsule is built in registered
//     memory: an SQE with a keyed SGL that names the buffer, or, for small writes,
//     the buffer's data behind it. All capsules go out with one post.
//  3. The controller moves the data by RDMA WRITE or RDMA READ, without any code
//     running here, and sends a response capsule.
//  4. The provider calls the handler of the receive CQ with a batch of responses.
//     It posts the receives again, looks for completions of the SENDs, and finds
//     each request by the command identifier (slot and generation).
//  5. A slot is free when both its SEND has completed and its response has come.
//     Requests that waited take the free slots, with one post for all.
//  6. The owners get their finished requests back, those of one owner together.
//
// A request longer than one command may be goes through stages 2 to 5 once for
// each part.
//
// # Who owns what
//
// A [Controller] has one protection domain, so that the keys of its memory die
// with it, one pool of data buffers, and one RDMA connection per [Queue]. The
// queue's lock guards slots and line (type exchange, which has no I/O and is tested
// without); it is not held while the transport runs or an owner is called. One
// goroutine per controller (supervise) keeps the time limits and the keep-alive,
// and ends the connections; one per queue (mind) waits for the connection's end,
// and for SENDs whose completion was overtaken by the response; one per controller
// (watchEvents) follows changes of namespaces.
//
// # When the connection ends
//
// Whoever sees the trouble calls fail with the cause: a handler that got what was
// not asked for, a post that was refused, a connection that ended, an answer that
// was overdue, a Keep Alive without answer. supervise then destroys the queue
// pairs of all queues, and only after that, when the peer can't reach any buffer,
// gives every request back with an error that wraps [ErrConnectionLost] and the
// cause. The states are those of [State].
//
// Reconnecting belongs between these two steps: a Request holds all that is needed
// to build its command again, for another controller too.
package initiator
