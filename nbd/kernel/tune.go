package kernel

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
)

// tune sets what the kernel's defaults make slow: requests of up to a whole
// transfer (the default is 128 KiB), no more trimming at once than ends in time (the
// default is 4 GiB), and no I/O scheduler, for the order is decided at the other end.
//
// What is set already is left alone: to set it again would hold up all new requests
// until the kernel has its answers to the old ones. Those of a process that has died
// are sent again only when their time is over.
func (h *Host) tune(d Device, maxTransfer uint32, maxTrim uint64) {
	for _, s := range []struct {
		file, value string
	}{
		{"max_sectors_kb", strconv.FormatUint(uint64(maxTransfer>>10), 10)},
		{"discard_max_bytes", strconv.FormatUint(maxTrim, 10)},
		{"scheduler", "none"},
	} {
		path := filepath.Join(h.sysfs(d), "queue", s.file)
		if s.value == "0" || setting(path) == s.value {
			continue
		}
		if err := os.WriteFile(path, []byte(s.value), 0); err != nil {
			h.log.Debug("setting of the block layer refused", "file", path, "value", s.value, "err", err)
		}
	}
}

// setting is what a file of a request queue says: its text, or where it lists all that
// there are, the one in brackets.
func setting(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	if _, after, ok := bytes.Cut(b, []byte("[")); ok {
		b, _, _ = bytes.Cut(after, []byte("]"))
	}
	return string(bytes.TrimSpace(b))
}
