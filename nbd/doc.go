// Package nbd is a server of the NBD protocol on unix and TCP sockets. It
// serves any [Device]; what stands behind a device is the adapter's affair.
//
// The protocol is doc/proto.md of the NBD project (NetworkBlockDevice/nbd):
// fixed newstyle negotiation with simple, structured and extended replies,
// and the metadata context base:allocation. TLS is refused.
//
// # The way of a connection
//
//  1. [Server.Serve] accepts and starts one goroutine per connection, the
//     reader, which first negotiates: the handshake is a state machine that
//     takes bytes and appends its answers to a buffer (handshake.go). Its
//     result is a session: export, reply mode, transmission flags.
//  2. The reader opens a [Queue] on the device and reads from the socket into
//     a stage. It parses every complete request there (request.go), checks it
//     against the session (check.go), takes a slot and, for data, memory from
//     the queue, and submits all of them as one batch (reader.go, large.go).
//     Payload of a WRITE that is not yet in the stage is read from the socket
//     straight into the memory of the device.
//  3. The device hands completed requests in batches to [Owner.Complete], on a
//     goroutine of its own. There the replies are encoded into a small arena
//     and queued (reply.go), and one gathered write sends the headers and the
//     data of all of them (sender.go).
//  4. When the socket takes no more, the right to transmit goes to the writer
//     goroutine of the connection, which waits for the socket; replies that
//     come meanwhile queue up behind.
//  5. A slot and its memory are free again when the last byte of the reply is
//     in the socket.
//
// # When a client leaves
//
// After NBD_CMD_DISC or the end of the stream, what has been read is finished and
// answered: a client may end its side and still read. But what a device keeps back
// because it can't do it now must not be done at some later time, over what a
// successor of the client has been told to be written. So a goroutine of each
// connection waits for the client to hang up, also while no request is read, and
// tells the device, if that is an [Abandoner]. And a client that comes waits, before
// its first request is read, until those of the same export that have hung up have
// nothing in hand (succession.go). It sees a pause; after a minute it is refused. For
// connections without a handshake, their caller has to see to that.
//
// # Ownership
//
// A slot has one owner at a time: the free list, the reader, the device, the
// send queue ([slotState] in slot.go). The stage and the batch belong to the
// reader; the free list, the send queue and the arena are guarded by conn.mu.
// The right to transmit is conn.active: who sets it under conn.mu is the only
// one to touch the socket for writing until he gives it up. No lock is held in
// a system call or in a call of the device, save for [Queue.Free].
//
// # Bounds
//
// A connection has [MaxRequests] slots and at most 64 MiB of device memory in
// flight. A client that has used them up isn't read until replies have left,
// so a client that sends without reading stops itself. Options of the handshake
// are held up to 32 KiB and skipped up to 32 MiB; the payload of a refused
// request is read and dropped up to 64 MiB; what is longer costs the client its
// connection, as does a request without the magic number, for nothing after it
// can be understood. All other errors are answered, and the stream stays in
// step.
//
// Requests longer than one device request are split. The parts of such a READ
// go out as chunks of their own as they complete, where the reply mode has
// chunks. A simple reply, and one to a client that forbids fragments, needs
// all data in order behind one header: its parts are collected when the memory
// is there, and otherwise sent part by part while nothing else is in flight
// on the connection (large.go), so that no amount of memory is too small.
package nbd
