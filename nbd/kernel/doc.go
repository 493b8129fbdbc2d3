// Package kernel makes an NBD export a block device of the Linux kernel,
// /dev/nbdN, by the generic netlink family "nbd" (linux/nbd-netlink.h, since Linux
// 4.12). The kernel is the NBD client: it is handed sockets that are already in
// the transmission phase. Their other ends are served by an nbd.Server in this
// process.
//
// # The life of a device
//
//  1. [Host.Attach] makes a pair of Unix sockets for each connection, gives the
//     kernel one end of each (NBD_CMD_CONNECT) and serves the others. The device is
//     marked with a backend identifier, /sys/block/nbdN/backend, which tells
//     everybody which remote disk this is.
//  2. [Host.ScanPartitions] lets the kernel look for partitions, [Host.Announce]
//     makes udev look again: who listens for uevents knows when it is done.
//  3. A connection that the kernel gives up, for a timeout or an error, is replaced
//     as soon as no request of it is in hand (NBD_CMD_RECONFIGURE). Until then the
//     kernel keeps or resends what has not been answered.
//  4. When this process dies, the kernel keeps all requests for the dead-connection
//     timeout. A new process finds the device by its identifier and takes it over
//     with new sockets ([Host.TakeOver]).
//  5. [Attachment.Detach] ends it when nobody uses the device, and otherwise names
//     the users; [Attachment.ForceDetach] does not ask, and all requests that the
//     kernel still has end with EIO.
//
// # No request is done twice behind the kernel's back
//
// The kernel gives up a connection whose answer is overdue, and sends the request
// again on another one, although the device may still be busy with the first copy.
// Were both under way, the first copy of a write could land after a later write of
// the same blocks. The kernel shuts the socket down before it resends, and that can
// be seen at our end: before a batch of requests is submitted, a [fence] looks at
// the sockets of the device. Requests of a connection that is shut down are dropped,
// and those of others wait while one that is shut down has requests in hand. Those that
// the device keeps back, because it can't do them now, end there (nbd.Abandoner).
//
// A copy has what is left of its own time when the first one is done. So a request must
// not take longer than the time of requests (Options.RequestTimeout), or its copies may
// be overdue, too, for ever: what the kernel can send at once is bounded. Reads and
// writes are, by the transfer size; trims are given a bound (tune); Write Zeroes can not
// be, and is not announced. A flush may take longer: what the first one has made durable
// the copy need not do again.
//
// The outcome of the first one is not handed to the copy. That would be right if it were
// known for one. But the kernel numbers a copy like a new request with the same tag,
// which there may be when the old one has ended with the dead-connection timeout; and
// the data of a write may have changed since.
//
// # Threads
//
// Without the netlink family the driver's ioctls do (ioctls): stages 3 and 4 are not
// possible then, and a thread waits in the kernel for the end of each device.
//
// Each connection is a goroutine of [Attachment], which serves it and replaces it.
// All methods may be called from several goroutines. [Host] has no state besides
// its netlink socket.
package kernel
