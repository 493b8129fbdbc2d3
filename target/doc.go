// Package target exports block storage over NVMe/RDMA: a subsystem for each NQN,
// its namespaces on backends, controllers for the hosts that connect, and a
// discovery subsystem. It works on any provider of package verbs.
//
// # The parts
//
//	Target ─┬─ subsystem ─┬─ namespace ── backend.Backend
//	        │             └─ controller        one for each host association
//	        ├─ deviceResources                 PD and data buffers of one RDMA device
//	        └─ conn ── queue ── slot           one conn for each queue pair
//
// A [Target] is made with [New], filled with AddNamespace, and serves listeners
// with Serve until Shutdown. Namespaces may come, go and change their size while
// it serves; hosts are told by asynchronous events.
//
// # The way of one command
//
//  1. The provider calls the queue's CQ handler with a batch of completions. The
//     caller becomes the queue's owner (queue.go); who comes while there is an
//     owner leaves what he has in the inbox.
//  2. A receive is a command capsule: it gets a slot, and the SQE is checked
//     (capsule.go): identifier, flags, opcode, namespace, blocks, SGL. What does
//     not pass is answered now.
//  3. Data needs a buffer from the device's pool; in-capsule data stays where it
//     is. Each controller has an account there for each namespace, and a share. A slot
//     that finds no buffer, or is over the share, waits in line (slotWaitBuffer).
//  4. Data of a write is fetched by RDMA READ (slotFetching).
//  5. The backend is tried inline; only what would wait goes to a worker of the
//     namespace (slotExecuting), which brings the slot back through the inbox.
//     Admin and Fabrics commands go to the controller, which may keep them
//     (slotParked): asynchronous event requests, and a Connect that waits.
//  6. The answer, for a read behind the RDMA WRITE of its data, joins the batch.
//     When the inbox is empty the owner posts all receives, then all sends, each
//     with one call, and looks at the inbox once more (slotResponding).
//  7. The completion of the SEND frees slot and buffer.
//
// # Ownership and locks
//
// A queue's slots, batch and identifiers belong to its owner, whoever that is at
// the moment; the inbox is under the queue's mutex, which is held for no other
// work. A slot on a worker belongs to that worker. Controllers have a mutex, under
// which only admin commands and events run. Locks are taken in the order controller,
// Target, subsystem; no lock is held when a queue is entered.
//
// Each conn has one goroutine, which makes the connection, watches the clock for
// it, and frees it at the end. Nothing runs for a connection that is idle.
//
// # Rules of data safety
//
// A command is answered once: slots pass through their states by one function,
// which knows what may follow what. Success is answered behind the data, on the
// same connection. When a connection is lost, what its commands still do on
// backends is counted for its host (hostorder.go), and the next Connect of that
// host to the subsystem is answered when the count is zero: a write from before a
// loss is never done after one from after it. Commands of connections of that host
// that seem to be well are waited for too, also those that are still on the way
// (fence.go): only the host may know that they are lost.
//
// The peer is not trusted: lengths, blocks and keys are checked before use and
// can't overflow; the target grants no remote access to its memory; connections,
// controllers, queues, slots and buffers are bounded by [Config]; a peer that does
// not keep to the protocol gets the standard's status, or loses its own
// connection.
package target
