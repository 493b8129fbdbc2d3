package ibv

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"rbd/verbs"
)

// memlock knows how much memory this process may pin (RLIMIT_MEMLOCK).
type memlock struct {
	status string // /proc/self/status
	limit  func() uint64
}

func newMemlock() memlock { return memlock{status: "/proc/self/status", limit: memlockLimit} }

const unlimited = ^uint64(0)

func memlockLimit() uint64 {
	var r unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r) != nil {
		return unlimited // then the kernel will say so
	}
	return r.Cur
}

// check says whether n bytes more can be pinned. The kernel counts as it does, and
// lets those with CAP_IPC_LOCK pin what they like.
func (m memlock) check(n int) error {
	limit := m.limit()
	if limit == unlimited {
		return nil
	}
	pinned, free := m.state()
	page := uint64(os.Getpagesize())
	if need := (uint64(n) + page - 1) / page * page; free || need <= limit && pinned <= limit-need {
		return nil
	}
	return fmt.Errorf("the memory-lock limit is %d KiB, of which %d KiB are in use; raise it (systemd: LimitMEMLOCK=infinity, "+
		"shell: ulimit -l unlimited, limits.conf: memlock) or run as root: %w", limit>>10, pinned>>10, verbs.ErrNoMemory)
}

// state is how many bytes the process has pinned, and whether the limit does not
// matter to it.
func (m memlock) state() (pinned uint64, free bool) {
	b, err := os.ReadFile(m.status)
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(b) {
		key, value, _ := bytes.Cut(bytes.TrimSpace(line), []byte(":"))
		value = bytes.TrimSpace(value)
		switch string(key) {
		case "VmPin":
			kib, _ := strconv.ParseUint(string(bytes.TrimSuffix(value, []byte(" kB"))), 10, 54)
			pinned = kib << 10
		case "CapEff":
			caps, _ := strconv.ParseUint(string(value), 16, 64)
			free = caps>>unix.CAP_IPC_LOCK&1 != 0
		}
	}
	return pinned, free
}
