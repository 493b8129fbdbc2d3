package nbd_test

import (
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"rbd/nbd"
	"rbd/nbd/nbdtest"
)

// socketPair is two connected unix sockets.
func socketPair(t testing.TB) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	conns := make([]*net.UnixConn, 2)
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socket")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = c.(*net.UnixConn)
	}
	return conns[0], conns[1]
}

// Whatever a client sends after its handshake, the connection ends when the
// client does, and all memory is back. The first byte chooses the mode and the
// shape of the device.
func FuzzConnection(f *testing.F) {
	for kind := range byte(12) {
		mode := modes[kind%3]
		var b []byte
		for _, r := range []nbdtest.Request{
			{Cmd: nbdtest.CmdWrite, Cookie: 1, Offset: 512, Payload: make([]byte, 1024)},
			{Cmd: nbdtest.CmdRead, Cookie: 2, Length: 200000},
			{Cmd: nbdtest.CmdRead, Cookie: 2, Flags: nbdtest.FlagDF, Length: 300000},
			{Cmd: nbdtest.CmdWriteZeroes, Cookie: 3, Length: 1 << 20},
			{Cmd: nbdtest.CmdBlockStatus, Cookie: 4, Length: 1 << 20},
			{Cmd: nbdtest.CmdFlush, Cookie: 5},
			{Cmd: 99, Cookie: 6, Flags: nbdtest.FlagPayloadLen, Payload: make([]byte, 100)},
			{Cmd: nbdtest.CmdDisc},
		} {
			b = r.Append(b, mode)
		}
		f.Add(kind, b)
	}
	f.Fuzz(func(t *testing.T, kind byte, stream []byte) {
		ram := newRAM(t, 1<<20)
		ram.DeviceInfo.MaxTransfer, ram.DeviceInfo.MaxZero = 64<<10, 64<<10
		if kind/3%2 == 1 {
			ram.Memory = 64 << 10
		}
		ram.Async = kind/6%2 == 1
		s, err := nbd.NewServer([]nbd.Export{{Name: "disk", Device: nbdtest.Sparse{RAM: ram}}}, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		client, server := socketPair(t)
		defer client.Close()
		client.SetDeadline(time.Now().Add(patience))
		done := make(chan error, 1)
		go func() { done <- s.ServeConn(server) }()
		mode := modes[kind%3]
		if _, err := nbdtest.Open(client, "disk", mode, mode != nbdtest.Simple); err != nil {
			t.Fatal(err)
		}
		go func() {
			client.Write(stream)
			client.CloseWrite()
		}()
		// A stream of n bytes asks for at most 32 MiB per request.
		n, err := io.Copy(io.Discard, client)
		if os.IsTimeout(err) || n > int64(len(stream)/28+1)*(33<<20) {
			t.Errorf("%d bytes of replies, %v", n, err)
		}
		select {
		case <-done:
		case <-time.After(patience):
			t.Fatal("the connection did not end")
		}
	})
}
