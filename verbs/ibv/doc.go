// Package ibv reaches RDMA devices through rdma-core: InfiniBand, RoCE and iWARP
// adapters, and the kernel's software devices rxe and siw. [New] makes a
// [Provider], used through package verbs. It is the only package that calls C.
//
// # Libraries
//
// libibverbs and librdmacm are loaded at run time, when the provider is first
// used. A program that links this package starts without them, and is told then
// what is missing and how to get it. Their binary interface is declared in
// abi_linux.h, so that a build needs no headers of theirs; abi_check_linux.c
// compares the two where the headers are installed. Without cgo, or with the tag
// nordma, the provider says that the program was built without.
//
// # Layers
//
//	cmid, listener, qp, cq, pd, mr     package verbs: states, accounts, waiting
//	library (native.go)                what the provider needs of rdma-core
//	rdmaCore (native_*_unsafe.go)      cgo: handles and flat records
//	shim_*.c                           expands records, calls through the tables
//
// No structure of the libraries is seen in Go, and no pointer of Go is kept in C.
//
// # The way of a work request
//
//	PostSend, PostRecv     the caller's goroutine        qp.mu
//	1  check the request by what the QP was made for
//	2  note the caller's ID in the account of the queue (workQueue); the device
//	   gets a number in its place
//	3  make records without pointers, up to 64, and cross into C once for all
//	complete               who polls the CQ              cq.mu
//	4  take up to 64 records with one crossing
//	5  find the QP by the number's key, and the caller's ID; the requests before it
//	   in the queue are done too
//	6  an error ends the connection, on a goroutine of its own
//
// # Completion queues
//
// Each CQ has a completion channel of its own, whose descriptor waits in Go's
// poller. The goroutine of a handled CQ takes what there is, calls the handler,
// arms, looks once more, and waits. A CQ that is waited for has a goroutine that
// forwards events, from the first ReqNotify on. A polled CQ has none.
//
// Before the completions of the device a CQ has some of the provider's own, for
// what devices do differently:
//
//   - Requests posted in ERR are not handed to the device, as some never flush
//     them. They complete when the device has flushed what it had before.
//   - In SQD requests wait here: iWARP devices would close the connection.
//   - A device that does not flush in time loses the QP, and thereby all access to
//     its memory; then what is left is flushed here. So it is when a device is
//     removed.
//   - When a QP is destroyed, its completions are taken out of the device's queue
//     first: some drop them.
//
// # Connections
//
// One goroutine takes the events of the connection manager (dispatch) and hands
// them to the CMID or listener by a number that is never used twice. It never
// waits. One goroutine a device takes asynchronous events, and one the kernel's
// uevents. The first cause of an end counts: a failed request, a device that is gone,
// the peer's disconnect. On InfiniBand and RoCE a peer whose QP has failed looks like
// one that disconnects.
//
//	cq.mu > qp.mu > cmid.mu, softQueue's         Provider.mu > device.mu
//	cmid.calls, Provider.taking          calls of the library against destruction:
//	                                     taken first, with none of the others held
//
// # Removal of a device
//
// rxe and siw wait with their removal until no program has the device open. The
// provider hears of it by an identifier that is bound to each device it uses, ends
// the connections, flushes, frees all objects of the device, and closes it, while
// the program still has its own: they work as objects of a device that is gone
// (removal.go).
//
// # Memory
//
// Regions are pinned: before that, their size is compared with what the
// memory-lock limit (RLIMIT_MEMLOCK) leaves. Huge pages are asked for.
package ibv
