package nbd_test

import (
	"bytes"
	"fmt"
	"math"
	"net"
	"testing"
	"time"

	"rbd/nbd/nbdtest"
)

// A refused request gets its error, its payload is skipped, and the next request
// is understood: in every mode, for every way of being wrong.
func TestStaysInSync(t *testing.T) {
	ram := newRAM(t, 1<<20)
	ram.DeviceInfo.MinBlock = 512
	readOnly := newRAM(t, 1<<20)
	readOnly.DeviceInfo.ReadOnly = true
	writable, locked := start(t, ram), start(t, readOnly)
	pattern(ram.Data, 1)
	for _, mode := range modes {
		extended := mode == nbdtest.Extended
		for _, tt := range []struct {
			name string
			s    *running
			r    nbdtest.Request
			want uint32
			skip bool
		}{
			{"unknown command", writable, nbdtest.Request{Cmd: 77, Length: 4096}, 22, false},
			{"resize", writable, nbdtest.Request{Cmd: 8, Length: 4096}, 22, false},
			{"unknown flag", writable, nbdtest.Request{Cmd: nbdtest.CmdRead, Flags: 0x4000, Length: 512}, 22, false},
			{"unaligned read", writable, nbdtest.Request{Cmd: nbdtest.CmdRead, Offset: 1, Length: 512}, 22, false},
			{"unaligned write", writable, nbdtest.Request{Cmd: nbdtest.CmdWrite, Offset: 512, Payload: make([]byte, 100)}, 22, false},
			{"read beyond the end", writable, nbdtest.Request{Cmd: nbdtest.CmdRead, Offset: 1 << 20, Length: 512}, 22, false},
			{"read of 4 GiB", writable, nbdtest.Request{Cmd: nbdtest.CmdRead, Length: math.MaxUint32}, 22, false},
			{"offset of 2^64", writable, nbdtest.Request{Cmd: nbdtest.CmdRead, Offset: math.MaxUint64 - 511, Length: 512}, 22, false},
			{"write beyond the end", writable, nbdtest.Request{Cmd: nbdtest.CmdWrite, Offset: 1 << 20, Payload: make([]byte, 300000)}, 28, false},
			{"write of 32 MiB and a block", writable, nbdtest.Request{Cmd: nbdtest.CmdWrite, Payload: make([]byte, 32<<20+512)}, 28, extended},
			{"write to read-only", locked, nbdtest.Request{Cmd: nbdtest.CmdWrite, Payload: make([]byte, 100000)}, 1, false},
			{"zeroes to read-only", locked, nbdtest.Request{Cmd: nbdtest.CmdWriteZeroes, Length: 512}, 1, false},
			{"trim of read-only", locked, nbdtest.Request{Cmd: nbdtest.CmdTrim, Length: 512}, 1, false},
			{"empty read", writable, nbdtest.Request{Cmd: nbdtest.CmdRead}, 22, false},
			{"empty write", writable, nbdtest.Request{Cmd: nbdtest.CmdWrite}, 22, false},
			{"flush of a range", writable, nbdtest.Request{Cmd: nbdtest.CmdFlush, Length: 512}, 22, false},
			{"status of nothing", writable, nbdtest.Request{Cmd: nbdtest.CmdBlockStatus}, 22, false},
			{"DF", writable, nbdtest.Request{Cmd: nbdtest.CmdRead, Flags: nbdtest.FlagDF, Length: 512}, 22, mode != nbdtest.Simple},
			{"status without a context", writable, nbdtest.Request{Cmd: nbdtest.CmdBlockStatus, Length: 512}, 22, mode != nbdtest.Simple},
			{"trim of 2^64", writable, nbdtest.Request{Cmd: nbdtest.CmdTrim, Length: math.MaxUint64}, 22, !extended},
			{"zeroes that wrap", writable, nbdtest.Request{Cmd: nbdtest.CmdWriteZeroes, Offset: 512, Length: math.MaxUint64 - 511}, 28, !extended},
			{"read with a payload", writable, nbdtest.Request{Cmd: nbdtest.CmdRead, Flags: nbdtest.FlagPayloadLen, Payload: make([]byte, 5000)}, 22, !extended},
			{"unknown command with a payload", writable, nbdtest.Request{Cmd: 99, Flags: nbdtest.FlagPayloadLen, Payload: make([]byte, 200000)}, 22, !extended},
			{"status with a strange payload", writable, nbdtest.Request{Cmd: nbdtest.CmdBlockStatus, Flags: nbdtest.FlagPayloadLen, Payload: make([]byte, 13)}, 22, !extended},
			{"status with an unknown context", writable, nbdtest.Request{Cmd: nbdtest.CmdBlockStatus, Flags: nbdtest.FlagPayloadLen, Payload: []byte{0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 9}}, 22, !extended},
		} {
			if tt.skip {
				continue
			}
			c := tt.s.open(t, mode)
			tt.r.Cookie = 0xabcdef
			if got := do(t, c, tt.r); got.Error != tt.want {
				t.Errorf("%v, %s: error %d, want %d", mode, tt.name, got.Error, tt.want)
			}
			if r := do(t, c, nbdtest.Request{Cmd: nbdtest.CmdRead, Cookie: 2, Offset: 1024, Length: 512}); r.Error != 0 || len(r.Data) != 512 {
				t.Errorf("%v, %s: the next read: error %d, %d bytes", mode, tt.name, r.Error, len(r.Data))
			}
			c.Close()
		}
	}
	if !bytes.Equal(ram.Data, pattern(make([]byte, 1<<20), 1)) {
		t.Error("a refused request has changed the device")
	}
}

// What nobody can be in step with after costs the connection, and only that one.
func TestHardDisconnect(t *testing.T) {
	s := start(t, newRAM(t, 1<<20))
	bystander := s.open(t, nbdtest.Structured)
	for name, tt := range map[string]struct {
		mode nbdtest.Mode
		data []byte
	}{
		"garbage":                    {nbdtest.Simple, bytes.Repeat([]byte("garbage "), 1000)},
		"compact in extended mode":   {nbdtest.Extended, nbdtest.Request{Cmd: nbdtest.CmdRead, Length: 512}.Append(nil, nbdtest.Simple)},
		"extended in compact mode":   {nbdtest.Structured, nbdtest.Request{Cmd: nbdtest.CmdRead, Length: 512}.Append(nil, nbdtest.Extended)},
		"write of 4 GiB":             {nbdtest.Simple, nbdtest.Request{Cmd: nbdtest.CmdWrite, Length: math.MaxUint32}.Append(nil, nbdtest.Simple)},
		"extended write of 2^64":     {nbdtest.Extended, nbdtest.Request{Cmd: nbdtest.CmdWrite, Length: math.MaxUint64}.Append(nil, nbdtest.Extended)},
		"extended payload of 33 MiB": {nbdtest.Extended, nbdtest.Request{Cmd: 99, Flags: nbdtest.FlagPayloadLen, Length: 33 << 20}.Append(nil, nbdtest.Extended)},
	} {
		c := s.open(t, tt.mode)
		c.Write(tt.data)
		if got := expectClosed(t, c); len(got) != 0 {
			t.Errorf("%s: server answered %x", name, got)
		}
	}
	if r := do(t, bystander, nbdtest.Request{Cmd: nbdtest.CmdRead, Length: 512}); r.Error != 0 {
		t.Errorf("another connection has got error %d", r.Error)
	}
}

// A session that is split at any byte does the same. The client pauses at the
// split, so that the server sees the first part alone.
func TestSplitAtEveryByte(t *testing.T) {
	ram := newRAM(t, 1<<20)
	s := start(t, ram)
	for _, mode := range []nbdtest.Mode{nbdtest.Structured, nbdtest.Extended} {
		var stream []byte
		reqs := []nbdtest.Request{
			{Cmd: nbdtest.CmdWrite, Cookie: 1, Offset: 512, Payload: pattern(make([]byte, 40), 3)},
			{Cmd: 50, Cookie: 2, Length: 9},
			{Cmd: nbdtest.CmdWrite, Cookie: 3, Offset: 1 << 20, Payload: make([]byte, 30)},
			{Cmd: nbdtest.CmdRead, Cookie: 4, Offset: 512, Length: 40},
		}
		if mode == nbdtest.Extended {
			reqs = append(reqs, nbdtest.Request{Cmd: nbdtest.CmdBlockStatus, Flags: nbdtest.FlagPayloadLen, Cookie: 5,
				Payload: []byte{0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1}})
		}
		for _, r := range reqs {
			stream = r.Append(stream, mode)
		}
		for cut := range stream {
			c := s.open(t, mode)
			for _, r := range reqs {
				c.Expect(r)
			}
			c.Write(stream[:cut])
			time.Sleep(100 * time.Microsecond)
			c.Write(stream[cut:])
			answers := make(map[uint64]nbdtest.Reply)
			for range reqs {
				r, err := c.Recv()
				if err != nil {
					t.Fatalf("%v, cut at %d: %v", mode, cut, err)
				}
				answers[r.Cookie] = r
			}
			got := fmt.Sprint(answers[1].Error, answers[2].Error, answers[3].Error, answers[4].Error)
			if got != "0 22 28 0" || len(answers) != len(reqs) || len(answers[4].Data) != 40 {
				t.Fatalf("%v, cut at %d: %s, %d answers", mode, cut, got, len(answers))
			}
			c.Close()
		}
	}
}

// A client that leaves at any byte of a session leaves nothing behind: newRAM
// checks the buffers, TestMain the goroutines.
func TestTruncatedAtEveryByte(t *testing.T) {
	ram := newRAM(t, 1<<20)
	ram.Async = true
	ram.DeviceInfo.MaxTransfer = 64 << 10
	s := start(t, ram)
	var stream []byte
	stream = append(stream, 0, 0, 0, 3)
	stream = nbdtest.AppendOption(stream, nbdtest.OptStructuredReply, nil)
	stream = nbdtest.AppendOption(stream, nbdtest.OptGo, nbdtest.ExportQuery("disk"))
	stream = nbdtest.Request{Cmd: nbdtest.CmdRead, Length: 300000}.Append(stream, nbdtest.Structured)
	stream = nbdtest.Request{Cmd: nbdtest.CmdWrite, Payload: make([]byte, 130000)}.Append(stream, nbdtest.Structured)
	for cut := 0; cut < len(stream); cut += 1 + cut/300*1000 {
		c := s.dial(t)
		c.Write(stream[:cut])
		if cut%2 == 0 {
			c.(*net.UnixConn).CloseWrite()
			expectClosed(t, c)
		}
		c.Close()
	}
}

// A client that sends without reading stops being read: what the server holds
// for it is bounded, and all of it is answered when the client reads at last.
func TestSlowReader(t *testing.T) {
	ram := newRAM(t, 4<<20)
	s := start(t, ram)
	for _, tt := range []struct{ count, length, most int }{
		{10000, 4096, 256}, // bounded by slots
		{200, 1 << 20, 64}, // bounded by memory
	} {
		c := s.open(t, nbdtest.Structured)
		sent := make(chan error, 1)
		go func() {
			for i := range tt.count {
				if err := c.Send(nbdtest.Request{Cmd: nbdtest.CmdRead, Cookie: uint64(i), Length: uint64(tt.length)}); err != nil {
					sent <- err
					return
				}
			}
			sent <- nil
		}()
		time.Sleep(50 * time.Millisecond)
		if n := ram.InUse(); n > tt.most {
			t.Errorf("%d buffers are in use", n)
		}
		for i := range tt.count {
			c.SetDeadline(time.Now().Add(patience)) // for each, however many there are
			if r, err := c.Recv(); err != nil || r.Cookie != uint64(i) || len(r.Data) != tt.length {
				t.Fatalf("reply %d: cookie %d, %d bytes, %v", i, r.Cookie, len(r.Data), err)
			}
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
}

// A client that vanishes with replies unread frees what they hold.
func TestVanishedReader(t *testing.T) {
	ram := newRAM(t, 4<<20)
	ram.Async = true
	s := start(t, ram)
	for range 5 {
		c := s.open(t, nbdtest.Structured)
		for i := range uint64(100) {
			c.Send(nbdtest.Request{Cmd: nbdtest.CmdRead, Cookie: i, Length: 1 << 20})
			if i == 10 {
				c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond))
			}
		}
		c.Close()
	}
}
