// Package e2e runs both programs as a user would and talks to them with real
// clients: libnbd's nbdinfo, nbdcopy and nbdsh, qemu-img, qemu-io, and fio. What
// those wrote is compared with the bytes in the target's file.
//
// The programs are built once per run, with the race detector if the tests are. A test that needs a client skips without
// it, and fails without it under continuous integration.
package e2e
