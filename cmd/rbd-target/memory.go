package main

import (
	"fmt"
	"os"
	"strings"

	"rbd/cmd/internal/size"
)

// warnOfMemory tells of ram exports that the machine has no memory for. It is used as they
// are written, so all goes well until then.
func (s *settings) warnOfMemory(meminfo string) {
	var wanted int64
	for _, e := range s.exports {
		if e.Backend == "ram" {
			wanted += e.Size
		}
	}
	if free, ok := availableMemory(meminfo); ok && wanted > free {
		s.log.Warn("ram exports are larger than the memory that is available: when they have been written, programs will be killed for want of memory",
			"exports", size.String(wanted), "available", size.String(free))
	}
}

// availableMemory is MemAvailable of /proc/meminfo in bytes.
func availableMemory(meminfo string) (n int64, ok bool) {
	text, err := os.ReadFile(meminfo)
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "MemAvailable:"); ok {
			_, err := fmt.Sscanf(rest, "%d kB", &n)
			return n << 10, err == nil
		}
	}
	return 0, false
}
