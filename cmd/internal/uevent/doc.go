// Package uevent listens for what the kernel, and udev after it, tell about block
// devices.
//
// It is the one place that uses go-udev, which is under the GPLv3: the importable
// packages of this module do without it. Of go-udev only the opening of the socket
// and the parser are used. Its Monitor blocks a thread that nothing can end, its
// parser refuses a whole event for a value with "=" in it and panics on a message
// without a NUL; here the socket is in the runtime's poller, and such values are
// left out before.
//
// A [Watcher] belongs to one goroutine at a time; Close may be called by another
// and wakes it.
package uevent
