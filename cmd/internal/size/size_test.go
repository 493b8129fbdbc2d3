package size_test

import (
	"testing"

	"rbd/cmd/internal/size"
)

// A bare suffix is binary, a decimal one stays decimal, and nonsense is refused.
func TestParse(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "4096": 4096, "1K": 1 << 10, "512k": 512 << 10, "10G": 10 << 30, "10GiB": 10 << 30, "10GB": 10e9,
		"1.5M": 3 << 19, " 2T ": 2 << 40, "7E": 7 << 60, "9223372036854775807": 1<<63 - 1,
		"": -1, "G": -1, "-1": -1, "-5G": -1, "+5": -1, "ten": -1, "10Q": -1, "8E": -1, "1e30": -1, "10 000": -1, "NaN": -1, "0x10": -1,
	} {
		got, err := size.Parse(in)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("Parse(%q) = %d (%v), want %d", in, got, err, want)
		}
	}
}

// What is printed for people is in binary units.
func TestString(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 512: "512 B", 10 << 30: "10 GiB", 3 << 19: "1.5 MiB"} {
		if got := size.String(n); got != want {
			t.Errorf("String(%d) = %q, want %q", n, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"10G", "1.5MiB", "-1", "", "999999999999E"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := size.Parse(s); err == nil && n < 0 {
			t.Fatalf("Parse(%q) = %d", s, n)
		}
	})
}
