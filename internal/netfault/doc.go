// Package netfault is a TCP proxy for tests that breaks connections as networks
// and machines do.
//
// Each accepted connection is joined with one to the server by two goroutines, one
// for each direction. They ask the gate before they pass on what they have read,
// so that a frozen proxy holds everything, and delivers it late when it thaws: also
// what comes from a client that has gone meanwhile.
package netfault
