// Package iwarp is an RDMA provider in software: iWARP (MPA, DDP, RDMAP; RFC
// 5044, 5041, 5040, 6581) on plain TCP sockets. It needs no device, no kernel
// module and no rights, and its peers may be the kernel's Soft-iWARP or iWARP
// adapters. [New] makes a [Provider], used through package verbs.
//
// # Making a connection
//
//	active                                        passive
//	ResolveAddr, CreateQP                         Listen, GetRequest, CreateQP
//	Connect: TCP, MPA request  ──────────────>    listener reads it (5 s)
//	         waits (10 s)      <──────────────    Accept: MPA reply in one write
//	         empty RDMA WRITE  ──────────────>    now the passive side may send
//
// The active side always asks for revision 2 with IRD and ORD; the passive side
// answers in the revision of the request. Markers are refused. CRC is on when
// either side wants it: address parameter crc=on.
//
// # The way of a work request
//
//	PostSend                            any goroutine        qp.mu
//	1  copy into the send queue ring
//	2  try to take the transmit token ── taken: its holder will see the request
//	                                  └─ plugged: the handler's goroutine sends later
//	transmit                            the token's holder   no lock but short ones
//	3  fill: check keys, cut FPDUs, headers into the arena, payload by reference
//	4  write: one sendmsg for the batch; regions are pinned only while it runs
//	5  socket full, or many batches: the token goes to the worker, which may wait
//	6  account: SENDs and WRITEs that TCP took are done; completions in queue order
//
//	receive                             receiver goroutine
//	1  read: the rest of the current payload to its place, what follows to the stage
//	2  handle: FPDU by FPDU: sequence, key, bounds and rights, placement
//	3  last segments: complete RECVs and READs, queue inbound READs
//	4  when all that was read is handled: call the handlers of handled CQs, with
//	   the QP plugged; then transmit what they posted and the read responses
//
// An RDMA READ or WRITE of the peer passes through the receiver and the
// transmitter only: the program needs to do nothing.
//
// # Goroutines and locks
//
// A QP has a worker from CreateQP on, and a receiver from RTS on; both end in
// Destroy. The worker waits for a full socket, and calls handlers for completions
// that arose on a caller's goroutine. The receiver also buries the QP: after
// [qp.fail] it waits for the token, sends the Terminate, flushes, calls the
// handlers, and ends the stream.
//
//	cmid.mu > qp.mu > cq.mu, Users        the key table has no lock
//	the transmit token (qp.txBusy)        owns qp.tx, sq.next and what is after it
//	the receiver goroutine                owns qp.rx and the receive at rq.head
//
// # The end of the stream
//
// Every end sends a FIN behind what TCP has taken, also within an FPDU, and reads on
// until the peer's TCP has acknowledged everything, for a second at most: a socket that
// is closed earlier would throw it away if the peer sent something more. Then the sides
// differ (part.go):
//
//	passive   that wait outlives the QP; Destroy of the CMID waits for it
//	active    when the QP is destroyed and there is no headway, the connection is
//	          reset; the kernel does so when the process dies (SO_LINGER 0)
//
// The active side of a disk sends its writes again on another connection. A socket of
// the old one that went on sending could change data after that.
//
// # Segments
//
// On networks (an MSS below 16 KiB) no FPDU straddles two TCP segments: every
// write begins a segment, as the one before ended a record (MSG_EOR), and FPDUs
// are cut where the segment ends. After a short write that segment is filled up by a
// write of its own. Receivers in kernels and adapters are delicate
// about headers and CRCs that come in two parts. On loopback FPDUs have 64 KiB.
//
// # Memory keys
//
// A region has one STag, random and of 32 bits, which is both LKey and RKey. It
// dies with Dereg, or when the peer names it in a Send with Invalidate (RFC 5040,
// 5.3); then it is of no use to either side until it is registered anew. The sink
// of an RDMA READ gets no STag: the one on the wire is made up for each request,
// and the response is checked against the outstanding read queue.
package iwarp
