// Package sockio moves bytes between a stream socket and scattered memory with
// one system call, without allocating, and with the choice to wait or not.
//
// A [Conn] takes a socket over from the net package. It has two independent
// sides. One goroutine at a time may read, one at a time may write; the owner of
// the protocol sees to that. Deadlines and Close may be called by anybody.
//
//	reader:  Readv      waits until something is there
//	         TryReadv   answers ErrWouldBlock instead
//	writer:  TryWritev  sends what the socket takes now; used on goroutines that
//	                    must not wait, such as the one that reads
//	         Writev     waits until the socket takes something; used by the
//	                    goroutine that the rest was handed to
//
// A side that waits blocks its thread in poll(2), on the socket and on an eventfd
// by which deadlines and Close interrupt it; the reader of a busy connection, for
// a short time, in the read itself. The runtime's poller would cost a
// read that finds nothing, an epoll wait, and the waking of the scheduler and its
// monitor for each message, and each of these costs as much as the message itself
// when a request travels alone. The price is a thread for each connection; it
// sleeps when the connection does. A program with such readers runs best with a
// GOMAXPROCS of at least 4, for a blocked thread keeps its processor for 10 ms.
//
// net.Conn has no way to try, and net.Buffers allocates.
package sockio
