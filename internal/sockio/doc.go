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
// The side of a busy connection waits in a system call, a reader in the very one
// that reads, for at most 2 ms: the way through the runtime's poller costs a read
// that finds nothing, an epoll wait, and the waking of the scheduler and of its
// monitor for each message, and each of these costs as much as the message itself
// when a request travels alone. After that time the connection counts as idle and
// waits in the runtime's poller, where it occupies no thread. Neither allocates, and
// neither needs a descriptor that is not there from the start.
//
// A program with such readers runs best with a GOMAXPROCS of more than it has busy
// connections: a thread that waits in a system call keeps its processor for a while,
// and if there is no other one, the runtime's monitor looks every 20 µs for one to
// take away.
//
// net.Conn has no way to try, and net.Buffers allocates.
package sockio
