package nbd

import "golang.org/x/sys/unix"

// schedYield lets another thread have this processor (sched_yield).
func schedYield() { _, _, _ = unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
