// Package sockio moves bytes between a stream socket and scattered memory with
// one system call, without allocating, and with the choice to wait or not.
//
// A [Conn] has two independent sides. One goroutine at a time may read, one at a
// time may write; the owner of the protocol sees to that.
//
//	reader:  Readv   waits in the runtime's poller until something is there
//	         TryReadv  answers ErrWouldBlock instead
//	writer:  TryWritev  sends what the socket takes now; used on goroutines that
//	                    must not wait, such as the one that reads
//	         Writev     waits until the socket takes something; used by the
//	                    goroutine that the rest was handed to
//
// net.Conn has no way to try, and net.Buffers allocates; that is why this exists.
package sockio
