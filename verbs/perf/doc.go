// Package perf measures a fabric in the manner of linux-rdma/perftest, between
// two programs and over any [verbs.Provider]: bandwidth of RDMA WRITE and RDMA
// READ, latency of SEND and RDMA WRITE. The figures are defined as perftest
// defines them, so that they may be put beside those of ib_write_bw, ib_read_bw,
// ib_send_lat and ib_write_lat.
//
// # The flow of a test
//
//	client: Run                                server: Server.Serve
//	1  memory, CQ, QP
//	2  Connect, private data: Request  ──────>  3  check; a place among MaxTests
//	                                            4  memory, CQ, QP
//	                                   <──────  5  Accept, private data: Reply
//	                                               or Reject, private data: Reject
//	6  the test
//	   write_bw, read_bw  TxDepth requests     nothing: the provider serves them
//	                      are kept out
//	   send_lat           SEND         ──────>     its handler answers
//	                      RECV         <──────     with a SEND of the same size
//	   write_lat          RDMA WRITE   ──────>     a goroutine sees the last byte
//	                      sees it      <──────     change and writes back
//	7  bandwidth: an empty SEND behind the last request, and an empty SEND as the
//	   answer. It proves that the data has arrived: on iWARP, a completion means
//	   only that the transport has taken it.
//	8  Disconnect; everything is freed
//
// A test has a connection of its own, and the private data of the connection is
// all the control protocol there is: whoever holds the connection holds the
// test, and its end is the end of both.
//
// # Figures
//
// A bandwidth test notes when each request was posted and when completions came.
// Average: all bytes by the time from the first post to the end. Peak: the best
// of all stretches from a post to a later completion. A latency test notes when
// each ping was posted; an iteration is the time from one ping to the next, and
// half of it is the latency. The two longest iterations count only for the
// maximum. With Config.Duration only what happened in the middle half of the
// time counts, and bandwidth has no peak.
//
// # Threads
//
// The completion queue of either end is handled (see package verbs), and the
// handler drives the test; Run and Serve only watch. With Config.Poll a goroutine
// polls the queue instead. RDMA WRITE latency needs a goroutine on each end that
// looks at memory; it gives way to other threads while it waits, and sleeps when
// nothing came for some time. No iteration allocates memory, up to a million.
//
// # Trust
//
// A server lets whoever connects write to, or read from, a piece of memory made
// for that test, with the one right that the test needs. Sizes, times and the
// number of tests are bounded. There is no authentication: who may reach the
// listener is for the caller to decide.
package perf
