package nbd_test

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"rbd/nbd"
	"rbd/nbd/nbdtest"
)

// The kernel's connections begin without a handshake, and how they end tells
// whether the device was detached (NBD_CMD_DISC) or the socket is to be replaced.
func TestServeTransmission(t *testing.T) {
	ram := newRAM(t, 1<<20)
	for _, c := range []struct {
		name string
		last func(c *nbdtest.Client) error
		want error
	}{
		{"disconnect", func(c *nbdtest.Client) error { return c.Send(nbdtest.Request{Cmd: nbdtest.CmdDisc}) }, nil},
		{"close", func(c *nbdtest.Client) error { return c.Close() }, io.EOF},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, ram)
			near, far := socketPair(t)
			ended := make(chan error, 1)
			go func() { ended <- s.ServeTransmission(far, nbd.Export{Name: "disk", Device: ram}) }()
			client := nbdtest.Handed(near)
			defer client.Close()
			want := bytes.Repeat([]byte{7}, 4096)
			if r := do(t, client, nbdtest.Request{Cmd: nbdtest.CmdWrite, Cookie: 1, Offset: 4096, Payload: want}); r.Error != 0 {
				t.Fatalf("write: error %d", r.Error)
			}
			if r := do(t, client, nbdtest.Request{Cmd: nbdtest.CmdRead, Cookie: 2, Offset: 4096, Length: 4096}); !bytes.Equal(r.Data, want) {
				t.Fatal("read differs from write")
			}
			if err := c.last(client); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; !errors.Is(err, c.want) {
				t.Fatalf("served until: %v, want %v", err, c.want)
			}
		})
	}
}

// A shutdown ends the kernel's connections as it does all others.
func TestServeTransmissionShutdown(t *testing.T) {
	ram := newRAM(t, 1<<20)
	s := start(t, ram)
	near, far := socketPair(t)
	defer near.Close()
	ended := make(chan error, 1)
	go func() { ended <- s.ServeTransmission(far, nbd.Export{Name: "disk", Device: ram}) }()
	if r := do(t, nbdtest.Handed(near), nbdtest.Request{Cmd: nbdtest.CmdFlush, Cookie: 1}); r.Error != 0 {
		t.Fatalf("flush: error %d", r.Error)
	}
	s.shutdown(t)
	if err := <-ended; err == nil || errors.Is(err, io.EOF) {
		t.Fatalf("served until: %v, want that the server was shut down", err)
	}
}

// What the kernel is told of a device are the flags that the handshake tells.
func TestTransmissionFlags(t *testing.T) {
	for _, c := range []struct {
		info nbd.DeviceInfo
		want uint16
	}{
		{nbd.DeviceInfo{Size: 1 << 20, MaxTransfer: 1 << 20}, 0x401},
		{nbd.DeviceInfo{Size: 1 << 20, MaxTransfer: 1 << 20, Flush: true, FUA: true, Trim: true, WriteZeroes: true, MultiConn: true}, 0x56d},
		{nbd.DeviceInfo{Size: 1 << 20, MaxTransfer: 1 << 20, Flush: true, FUA: true, Trim: true, ReadOnly: true, Rotational: true}, 0x417},
	} {
		if got, err := nbd.TransmissionFlags(c.info); err != nil || got != c.want {
			t.Errorf("%+v: %#x (%v), want %#x", c.info, got, err, c.want)
		}
	}
	if _, err := nbd.TransmissionFlags(nbd.DeviceInfo{MaxTransfer: 1}); err == nil {
		t.Error("an impossible device has flags")
	}
}
