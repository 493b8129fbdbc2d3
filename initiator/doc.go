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
// each part, and a trim with FUA once more, with a Flush. So does, after a pause, one
// whose command is answered with an error that does not say Do Not Retry
// (queue_repeat.go).
//
// # Who owns what
//
// A [Controller] has one protection domain, so that the keys of its memory die
// with it, one pool of data buffers, its namespaces, and a [Queue] for each I/O
// queue. These last as long as it does. What lasts as long as a connection does is
// an association (association.go): the admin queue, what the controller told about
// itself, the clocks, and for each queue a queueConn with its RDMA connection,
// capsules and slots.
//
// The queue's lock guards slots and lines (types exchange and line, which have no
// I/O and are tested without); it is not held while the transport runs or an owner
// is called. One goroutine per association (supervise) keeps the time limits and
// the keep-alive, and ends the connections; one per queueConn (mind) waits for the
// connection's end, and for SENDs whose completion was overtaken by the response;
// one per association (watchEvents) follows changes of namespaces. One per
// controller (recoverAll) makes the next association, and one (tellChanges) tells
// changes of namespaces.
//
// # When the connection ends
//
//  1. Whoever sees the trouble calls fail of the association with the cause: a
//     handler that got what was not asked for, a post that was refused, a
//     connection that ended, an answer that was overdue, a Keep Alive without
//     answer. The state becomes [StateReconnecting]. From now on what is submitted
//     is held by its queue.
//  2. supervise destroys the queue pairs of all queues. Only after that, when the
//     peer can't reach any buffer, each queue takes back the requests that were out
//     or waiting, and holds them, in the order of their submission. Who waits with
//     a context that ends gets its request back at once.
//  3. recoverAll asks the recovery (recovery.go, a state machine without clock and
//     I/O) what to do: to try at once and then at every ReconnectDelay. If the target
//     has not closed the connection itself, it first gets the time to notice the loss,
//     see quiescence.
//  4. A try makes a whole new association: admin queue, I/O queues, namespaces. If
//     fewer I/O queues are granted than before, the others pass their requests on;
//     their owners are still told under the lock of their own queue.
//     If the address is reached by another device now, the memory is registered
//     there, with all buffers that are lent (dial.go). If a namespace that there was
//     can't be identified for a moment, the try has failed.
//  5. Before anything is sent, the namespaces are compared with those that there
//     were (adopt): identifiers, block size, and that none has become smaller. One
//     that is another disk is not used.
//  6. Each queue checks what it holds against the namespaces as they are now, and
//     sends it.
//  7. If that does not come to pass within LossTimeout, or the target refuses this
//     host again and again, what is held ends with an error that wraps
//     [ErrConnectionLost], and so does what is submitted: [StateLost]. Tries go on,
//     and after the first good one everything works again.
//
// A write that is sent again may be executed twice. That does no harm: as long as
// it is not answered, it may be executed at any time, before or after other writes
// to the same blocks that are not answered either; and nobody may have relied on
// what is there. (When several writes to one block are out at once, a reader may
// see one come into effect twice, with another in between.) The one danger is the first copy, from before the loss, being
// executed after the answer to the second. Against it, the target lets the host's
// next connection in only when the commands of the one before have left the disk,
// and this side does not come back before the target knows. A request that is given
// up by its caller is never sent again, for the same reason; nor is one whose owner
// has set [Request.Abandoned], which ends at the loss, or at once if it is held.
//
// What lies in the volatile cache of a target and has been answered is not held
// here, and is not sent again: it is safe when a process or a connection dies, but
// not when the target's host does before a flush.
package initiator
