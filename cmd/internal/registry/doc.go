// Package registry makes the processes that have disks connected known to each
// other: `list` and `disconnect` find them, and a second `connect` finds the first.
//
// Each process has two files in the runtime folder: connect-PID.sock, a socket on
// which it answers, and connect-PID.json, what it said last, which outlives it when
// it is killed. Whether it lives is what the socket tells, never the file. The
// folder belongs to its user alone, so that nobody else can ask.
//
//  1. [Serve] makes the files and answers on goroutines of its own, until Close.
//  2. A request and its answer are one line of JSON each. Who asked for the end of the
//     process gets a second answer, how that went, just before it is over.
//  3. [Entries] asks all processes of a folder what they have; those that do not
//     answer are told by their file. [Entry.Remove] cleans up after them.
//  4. [Lock] keeps two processes from connecting the same disk: the kernel gives it
//     free when its owner dies.
package registry
