package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// flusherMark is in the environment of a process that was started by itself as an
// I/O flusher.
const flusherMark = "RBD_IO_FLUSHER"

// protect makes the process one that the kernel can rely on to get rid of dirty
// pages. When memory is short, the kernel writes to the device that this process
// serves, so that it must not wait for that itself: its allocations do not
// (PR_SET_IO_FLUSHER), its memory is not paged out, and it is not killed for memory.
//
// The kernel keeps the flusher's mark for each thread, and threads, as well as what
// is executed, inherit it. The runtime has threads already, so the program executes
// itself. What is refused for want of rights is told in the log: the device works
// without, until memory is short.
func protect(log *slog.Logger) error {
	if os.Getenv(flusherMark) == "" {
		if err := becomeFlusher(); err != nil {
			log.Warn("the device may hang when memory is short: not an I/O flusher", "err", err)
		}
	}
	if err := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT); err != nil {
		log.Warn("the device may hang when memory is short: memory is not locked", "err", err)
	}
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0); err != nil {
		log.Warn("this process may be killed when memory is short", "err", err)
	}
	return os.Unsetenv(flusherMark) // not for children
}

// becomeFlusher executes the program again as an I/O flusher. It returns only if
// that is not possible.
func becomeFlusher() error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	runtime.LockOSThread() // it executes, and its mark is what is inherited
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_IO_FLUSHER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl(PR_SET_IO_FLUSHER): %w", err)
	}
	err = unix.Exec(path, os.Args, append(os.Environ(), flusherMark+"=1"))
	return errors.Join(fmt.Errorf("execute %s: %w", path, err), unix.Prctl(unix.PR_SET_IO_FLUSHER, 0, 0, 0, 0))
}
