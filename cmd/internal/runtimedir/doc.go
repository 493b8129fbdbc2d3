// Package runtimedir finds the folder for sockets and state that live as long as
// the processes do.
package runtimedir
