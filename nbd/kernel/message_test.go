package kernel

import (
	"encoding/hex"
	"strings"
	"testing"
	"time"
)

// The bytes follow linux/nbd-netlink.h and netlink(7) on a little-endian machine:
// attributes padded to four bytes, nested ones marked.
func TestEncodeConfig(t *testing.T) {
	const little = "0000000000000000"
	u64 := func(kind, value string) string { return "0c00" + kind + "00" + value + little[len(value):] }
	for _, c := range []struct {
		name    string
		cfg     config
		connect bool
		want    []string
	}{
		{
			"connect any", config{
				index: AnyDevice, size: 1 << 30, blockSize: 512, flags: 0x56d, timeout: 30 * time.Second, deadConn: 660 * time.Second,
				identifier: "rbd-nqn-1", sockets: []int{7, 9},
			}, true,
			[]string{
				u64("02", "00000040"), u64("03", "0002"), u64("04", "1e"), u64("08", "9402"), u64("05", "6d05"), u64("06", ""),
				"1c000780", "0c000180", "0800010007000000", "0c000180", "0800010009000000",
				"0e000a00" + hex.EncodeToString([]byte("rbd-nqn-1\x00")) + "0000",
			},
		},
		{
			"connect one without timeouts", config{index: 3, size: 512, blockSize: 4096, flags: 1, sockets: []int{4}}, true,
			[]string{
				"0800010003000000", u64("02", "0002"), u64("03", "0010"), u64("04", ""), u64("08", ""), u64("05", "01"), u64("06", ""),
				"10000780", "0c000180", "0800010004000000",
			},
		},
		{
			"resize", config{index: 0, size: 1 << 40, identifier: "x"}, false,
			[]string{"0800010000000000", u64("02", "000000000001"), "06000a0078000000"},
		},
		{
			"replace a socket", config{index: 12, identifier: "x", sockets: []int{258}}, false,
			[]string{"080001000c000000", "10000780", "0c000180", "0800010002010000", "06000a0078000000"},
		},
	} {
		b, err := c.cfg.encode(c.connect)
		if want := strings.Join(c.want, ""); err != nil || hex.EncodeToString(b) != want {
			t.Errorf("%s: %v\n got %x\nwant %s", c.name, err, b, want)
		}
	}
}

// A timeout never becomes none, nor wraps in the kernel's 32-bit jiffies.
func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]uint64{
		0: 0, time.Millisecond: 1, time.Second: 1, 1001 * time.Millisecond: 2, 1 << 62: 2073600,
	} {
		if got := seconds(d); got != want || got*1000 >= 1<<31 {
			t.Errorf("%v: %d s, want %d", d, got, want)
		}
	}
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The reply in the form that nbd_connect_reply makes.
func TestDecode(t *testing.T) {
	index, err := decodeIndex(unhex(t, "0800010005000000"))
	if err != nil || index != 5 {
		t.Errorf("index %d, %v", index, err)
	}
	if _, err := decodeIndex(unhex(t, "0800020005000000")); err == nil {
		t.Error("a reply without an index has one")
	}
}

// Whatever a reply holds, reading it ends.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\x08\x00\x01\x00\x05\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if index, err := decodeIndex(b); err != nil && index != 0 {
			t.Fatalf("index %d with %v", index, err)
		}
	})
}

// must forgets an error that can't be.
func must[T any](v T, _ error) T { return v }
