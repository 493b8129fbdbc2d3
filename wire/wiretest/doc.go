// Package wiretest reads recorded NVMe over RDMA traffic for tests: what two peers really sent each other, as commands with their data and answers.
//
// A stream file holds one iWARP connection: a line of hexadecimal for each TCP segment, and a tab before those of the target. From it come,
// in numbered stages:
//
//  1. ReadStream joins the lines of each direction, and remembers which line each byte came with.
//  2. The first bytes of each direction are its MPA frame: a Request or a Reply, with private data.
//  3. The rest is cut into FPDUs, and the DDP segments in them are put together to RDMAP messages ([Message]), in the order in which their last
//     bytes were seen.
//  4. Stream.Exchanges puts the messages of one command together: capsule, data in both directions, response ([Exchange]).
//
// ReadRoCE gets the SEND messages and the CM private data from a pcap file of RoCEv2 traffic.
//
// The readers expect an undisturbed recording: a frame that doesn't fit is an error that says where. Values are slices of what was read and must not be
// changed. Nothing here is safe for concurrent writing, all of it is for concurrent reading.
package wiretest
