package main

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// errNotAdmin is why there is no kernel device for who is not root. It comes before
// what else such a user lacks: folders, locks.
var errNotAdmin = errors.New("--nbd-device needs root (CAP_SYS_ADMIN), which this process does not have; use --nbd-socket, or run as root")

// checkAdmin says whether this process may make kernel devices.
func checkAdmin() error {
	var caps [2]unix.CapUserData // version 3 has 64 bits
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &caps[0]); err != nil {
		return fmt.Errorf("--nbd-device: ask for the capabilities of this process: %w", err)
	}
	if caps[0].Effective&(1<<unix.CAP_SYS_ADMIN) == 0 {
		return errNotAdmin
	}
	return nil
}
