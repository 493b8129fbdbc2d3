package uevent

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"rbd/internal/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ofUdev makes a message of udev with these properties.
func ofUdev(properties string) string {
	h := make([]byte, udevHeader)
	copy(h, "libudev\x00")
	binary.BigEndian.PutUint32(h[8:], 0xfeedcafe)
	binary.NativeEndian.PutUint32(h[12:], udevHeader)
	binary.NativeEndian.PutUint32(h[udevOffset:], udevHeader)
	binary.NativeEndian.PutUint32(h[20:], uint32(len(properties)))
	return string(h) + properties
}

// Messages of both sources are understood, those with "=" in a value too, and none
// makes the parser panic.
func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, message string
		want          map[string]string // nil: refused
	}{
		{"kernel", "change@/devices/virtual/block/nbd0\x00ACTION=change\x00DEVNAME=nbd0\x00SEQNUM=7\x00", map[string]string{"DEVNAME": "nbd0", "SEQNUM": "7"}},
		{"udev", ofUdev("ACTION=change\x00DEVPATH=/devices/virtual/block/nbd0\x00SYNTH_UUID=x\x00"), map[string]string{"SYNTH_UUID": "x"}},
		{"value with =", ofUdev("ACTION=change\x00DEVPATH=/devices/virtual/block/nbd0\x00ID_FS_LABEL=a==\x00DEVNAME=/dev/nbd0\x00"), map[string]string{"DEVNAME": "/dev/nbd0", "ID_FS_LABEL": ""}},
		{"empty", "", nil},
		{"no NUL", "add@/x", nil},
		{"no action", "x\x00", nil},
		{"short header", "libudev\x00short", nil},
		{"offset outside", strings.Replace(ofUdev("ACTION=add\x00"), "\x28\x00\x00\x00\x28", "\x28\x00\x00\x00\xff", 1), nil},
	} {
		e, ok := parse([]byte(c.message))
		if ok != (c.want != nil) {
			t.Errorf("%s: %+v, %v", c.name, e, ok)
			continue
		}
		for k, v := range c.want {
			if e.Env[k] != v || e.Action != "change" || e.DevPath != "/devices/virtual/block/nbd0" {
				t.Errorf("%s: %+v, want %s=%s", c.name, e, k, v)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("change@/devices/virtual/block/nbd0\x00ACTION=change\x00"))
	f.Add([]byte(ofUdev("ACTION=change\x00DEVPATH=/x\x00")))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, ok := parse(b); ok && e.Env == nil {
			t.Fatal("an event without properties")
		}
	})
}

// The end of the context and Close both end a wait, without a goroutine left.
func TestWatchEnds(t *testing.T) {
	w, err := Watch(Kernel)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for err == nil {
		_, err = w.Next(ctx)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("ended with %v", err)
	}
	ended := make(chan error)
	go func() {
		var err error
		for err == nil {
			_, err = w.Next(t.Context())
		}
		ended <- err
	}()
	time.Sleep(10 * time.Millisecond)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Fatalf("ended with %v", err)
	}
}

// An event that the kernel is asked for comes.
func TestWatchKernel(t *testing.T) {
	const file = "/sys/class/mem/null/uevent"
	w, err := Watch(Kernel)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := os.WriteFile(file, []byte("change"), 0); err != nil {
		testenv.Skip(t, "the right to write "+file)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		e, err := w.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if e.Env["DEVNAME"] == "null" && e.Action == "change" {
			return
		}
	}
}
