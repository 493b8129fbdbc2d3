// Package nbdtest has the doubles for tests of the NBD server: [RAM], a device
// in memory that delays, reorders and fails on request, and [Client], a plain
// client that shows what is on the wire. The client has its own copy of the
// protocol's numbers, so that it doesn't repeat the server's mistakes.
package nbdtest
