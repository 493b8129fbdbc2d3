package size

import (
	"fmt"
	"math"
	"strings"

	"github.com/dustin/go-humanize"
)

// Parse reads a byte count. A bare suffix K, M, G, T, P or E is binary.
func Parse(s string) (int64, error) {
	text := strings.TrimSpace(s)
	if n := len(text); n > 1 && strings.ContainsRune("kKmMgGtTpPeE", rune(text[n-1])) {
		text += "iB"
	}
	v, err := humanize.ParseBytes(text)
	if err != nil || strings.HasPrefix(text, "-") || strings.HasPrefix(text, "+") {
		return 0, fmt.Errorf("%q is not a size such as 4096, 512K or 10G", s)
	}
	if v > math.MaxInt64 {
		return 0, fmt.Errorf("size %q is larger than a disk can be", s)
	}
	return int64(v), nil
}

// String prints a byte count in binary units.
func String(n int64) string {
	return humanize.IBytes(uint64(max(n, 0)))
}
