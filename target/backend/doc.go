// Package backend is what a namespace stores its blocks in: a file, a block
// device, memory, or nothing.
//
// # Backends
//
//	OpenFile     a regular file or a block device
//	NewRAM       anonymous memory; lost at Close
//	NewNull      reads zeros, forgets writes
//	Delay, Faults, Limit   wrap a Backend and are one: they compose
//
// # The way of one request
//
//  1. The owner of a queue calls TryReadAt or TryWriteAt. They never wait: the
//     data is in memory, or the answer is [ErrWouldBlock].
//  2. Then, and for everything that has no Try form, a worker makes the call that
//     may block: ReadAt, WriteAt, Flush, Trim, WriteZeroes. Where
//     Attributes.NonBlocking is set nothing ever waits, and the owner of the
//     queue makes all calls itself whose range is not large.
//
// # Rules
//
// All methods are safe for concurrent use, except that Close comes last. Ranges
// are in bytes, whole blocks, and within Size; a call outside answers
// [ErrOutOfRange] and does nothing. A call is done whole or is an error: there
// are no short reads, and after an error the content of a read's buffer is not
// to be used.
//
// # Durability
//
// A write is visible to all readers when it returns. It is on stable storage
// after a Flush that begins later returns nil, or at once with [FUA]. When the
// system reports that a write-back failed, the lost data does not come back:
// every Flush and FUA write that waits or comes later answers the same error,
// until the backend is opened again.
package backend
