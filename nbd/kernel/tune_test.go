package kernel

import (
	"os"
	"path/filepath"
	"testing"
)

// Protects those who use a device that is taken over: a setting that is written, even to
// what it is already, stops the device until the kernel has all answers.
func TestTune(t *testing.T) {
	const untouched = "\n" // the end of what the kernel has written, and nobody else
	for _, c := range []struct {
		file, before, after string
		maxTransfer         uint32
		maxTrim             uint64
	}{
		{"max_sectors_kb", "128\n", "1024", 1 << 20, 0},
		{"max_sectors_kb", "1024\n", "1024" + untouched, 1 << 20, 0},
		{"max_sectors_kb", "128\n", "128" + untouched, 0, 0}, // no limit
		{"discard_max_bytes", "2147483136\n", "1048576", 0, 1 << 20},
		{"discard_max_bytes", "1048576\n", "1048576" + untouched, 0, 1 << 20},
		{"discard_max_bytes", "2147483136\n", "2147483136" + untouched, 0, 0},
		{"scheduler", "[mq-deadline] none\n", "none", 0, 0},
		{"scheduler", "[none] mq-deadline\n", "[none] mq-deadline" + untouched, 0, 0},
		{"scheduler", "none\n", "none" + untouched, 0, 0}, // the only one
	} {
		h := &Host{Root: t.TempDir()}
		path := filepath.Join(h.sysfs(Device{}), "queue", c.file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(c.before), 0o644); err != nil {
			t.Fatal(err)
		}
		h.tune(Device{}, c.maxTransfer, c.maxTrim)
		if got, err := os.ReadFile(path); err != nil || string(got) != c.after {
			t.Errorf("%s was %q: it is %q, %v; want %q", c.file, c.before, got, err, c.after)
		}
	}
}
