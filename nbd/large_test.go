package nbd_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"

	"rbd/nbd"
	"rbd/nbd/nbdtest"
)

// Requests that are longer than the device takes are split and have one reply,
// in every mode, with plenty of memory and with one buffer's worth.
func TestLargeRequests(t *testing.T) {
	const size = 6 << 20
	ram := newRAM(t, size)
	want := pattern(make([]byte, size), 5)
	for _, memory := range []int{64 << 20, 64 << 10} {
		for _, async := range []bool{false, true} {
			ram.Async, ram.Memory = async, memory
			ram.DeviceInfo.MaxTransfer, ram.DeviceInfo.MaxZero, ram.DeviceInfo.MaxTrim = 64<<10, 4096, 1<<20
			s := start(t, ram)
			for _, mode := range modes {
				t.Run(fmt.Sprintf("memory %d async %v %v", memory, async, mode), func(t *testing.T) {
					clear(ram.Data)
					c := s.open(t, mode)
					ok := func(r nbdtest.Request) nbdtest.Reply {
						t.Helper()
						reply := do(t, c, r)
						if reply.Error != 0 {
							t.Fatalf("command %d: error %d", r.Cmd, reply.Error)
						}
						return reply
					}
					ok(nbdtest.Request{Cmd: nbdtest.CmdWrite, Offset: 100, Payload: want[100 : 100+5<<20], Cookie: 1})
					ok(nbdtest.Request{Cmd: nbdtest.CmdWrite, Payload: want[:100], Cookie: 2})
					if got := ok(nbdtest.Request{Cmd: nbdtest.CmdRead, Offset: 5, Length: 5 << 20, Cookie: 3}).Data; !bytes.Equal(got, want[5:5+5<<20]) {
						t.Error("read differs from write")
					}
					if mode != nbdtest.Simple {
						if err := c.Send(nbdtest.Request{Cmd: nbdtest.CmdRead, Flags: nbdtest.FlagDF, Offset: 9, Length: 4 << 20, Cookie: 4}); err != nil {
							t.Fatal(err)
						}
						if r, err := c.Recv(); err != nil || !r.Done || r.Offset != 9 || !bytes.Equal(r.Data, want[9:9+4<<20]) {
							t.Errorf("fragmented in spite of NBD_CMD_FLAG_DF: done %v, %d bytes, %v", r.Done, len(r.Data), err)
						}
					}
					ok(nbdtest.Request{Cmd: nbdtest.CmdWriteZeroes, Offset: 1 << 20, Length: 3 << 20, Cookie: 5})
					ok(nbdtest.Request{Cmd: nbdtest.CmdTrim, Offset: 0, Length: 1 << 20, Cookie: 6})
					if !bytes.Equal(ram.Data[:4<<20], make([]byte, 4<<20)) || ram.Data[4<<20] != want[4<<20] {
						t.Error("zeroes and trim are not where they should be")
					}
				})
			}
			s.shutdown(t)
		}
	}
}

// The longest request, 32 MiB, is served with the slots and the memory that a
// connection has; with simple replies, too.
func TestLongestRequest(t *testing.T) {
	ram := newRAM(t, 32<<20)
	c := start(t, ram).open(t, nbdtest.Simple)
	want := pattern(make([]byte, 32<<20), 6)
	if r := do(t, c, nbdtest.Request{Cmd: nbdtest.CmdWrite, Payload: want}); r.Error != 0 {
		t.Fatalf("write: error %d", r.Error)
	}
	if r := do(t, c, nbdtest.Request{Cmd: nbdtest.CmdRead, Length: 32 << 20}); !bytes.Equal(r.Data, want) {
		t.Fatalf("read differs from write: error %d, %d bytes", r.Error, len(r.Data))
	}
}

// Long reads among short ones, while memory is short: nothing waits for itself,
// and simple replies are not torn apart.
func TestLargeReadsAmongOthers(t *testing.T) {
	ram := newRAM(t, 8<<20)
	pattern(ram.Data, 2)
	ram.Async, ram.Memory = true, 1<<20
	ram.DeviceInfo.MaxTransfer = 64 << 10
	s := start(t, ram)
	for _, mode := range []nbdtest.Mode{nbdtest.Simple, nbdtest.Extended} {
		c := s.open(t, mode)
		var reqs []nbdtest.Request
		for i := range uint64(60) {
			r := nbdtest.Request{Cmd: nbdtest.CmdRead, Cookie: i, Offset: i, Length: 5000}
			if i%7 == 3 {
				r.Length = 1<<20 + 300000*(i%3)
			}
			if i%14 == 3 && mode == nbdtest.Extended {
				r.Flags = nbdtest.FlagDF
			}
			reqs = append(reqs, r)
		}
		if err := c.Send(reqs...); err != nil {
			t.Fatal(err)
		}
		left := make(map[uint64]uint64)
		for _, r := range reqs {
			left[r.Cookie] = r.Length
		}
		for len(left) > 0 {
			r, err := c.Recv()
			if err != nil || r.Error != 0 {
				t.Fatalf("%v: %+v, %v", mode, r.Error, err)
			}
			at := r.Cookie
			if mode == nbdtest.Extended && r.Type == nbdtest.ReplyOffsetData {
				at = r.Offset
			}
			if !bytes.Equal(r.Data, ram.Data[at:at+uint64(len(r.Data))]) {
				t.Fatalf("%v: wrong data for %d", mode, r.Cookie)
			}
			left[r.Cookie] -= uint64(len(r.Data))
			if r.Done {
				if n, ok := left[r.Cookie]; !ok || n != 0 {
					t.Fatalf("%v: reply to %d ended with %d bytes missing", mode, r.Cookie, n)
				}
				delete(left, r.Cookie)
			}
		}
	}
}

// One bad part makes the whole command fail, once, and the stream goes on.
func TestLargeRequestErrors(t *testing.T) {
	ram := newRAM(t, 8<<20)
	ram.Fault = func(r *nbd.Request) error {
		if r.Offset <= 1<<20 && 1<<20 < r.Offset+r.Length {
			return nbd.ErrNoSpace
		}
		return nil
	}
	ram.DeviceInfo.MaxTransfer, ram.DeviceInfo.MaxZero, ram.DeviceInfo.MaxTrim = 64<<10, 64<<10, 64<<10
	for _, async := range []bool{false, true} {
		ram.Async = async
		s := start(t, ram)
		for _, mode := range modes {
			c := s.open(t, mode)
			for i, r := range []nbdtest.Request{
				{Cmd: nbdtest.CmdRead, Offset: 1 << 19, Length: 1 << 20},
				{Cmd: nbdtest.CmdWrite, Offset: 1 << 19, Payload: make([]byte, 1<<20)},
				{Cmd: nbdtest.CmdTrim, Offset: 1 << 19, Length: 1 << 20},
				{Cmd: nbdtest.CmdWriteZeroes, Length: 8 << 20},
			} {
				r.Cookie = uint64(i)
				if got := do(t, c, r).Error; got != 28 {
					t.Errorf("async %v, %v: command %d: error %d", async, mode, r.Cmd, got)
				}
			}
			if got := do(t, c, nbdtest.Request{Cmd: nbdtest.CmdRead, Offset: 2 << 20, Length: 1 << 20}); got.Error != 0 {
				t.Errorf("async %v, %v: error %d", async, mode, got.Error)
			}
		}
		s.shutdown(t)
	}
}

// When memory is short a simple reply to a long read has begun before all is
// read. An error in the first part is still told; one in a later part can only
// end the connection, and never passes for data.
func TestLargeReadErrorsWithoutMemory(t *testing.T) {
	for _, memory := range []int{64 << 10, 512 << 10} {
		testReadErrors(t, memory)
	}
}

func testReadErrors(t *testing.T, memory int) {
	ram := newRAM(t, 8<<20)
	ram.Memory = memory
	ram.DeviceInfo.MaxTransfer = 64 << 10
	var bad atomic.Uint64
	ram.Fault = func(r *nbd.Request) error {
		if r.Offset == bad.Load() {
			return nbd.ErrIO
		}
		return nil
	}
	for _, async := range []bool{false, true} {
		ram.Async = async
		s := start(t, ram)
		bad.Store(0)
		c := s.open(t, nbdtest.Simple)
		if got := do(t, c, nbdtest.Request{Cmd: nbdtest.CmdRead, Length: 4 << 20}); got.Error != 5 {
			t.Errorf("async %v: first part: error %d", async, got.Error)
		}
		if got := do(t, c, nbdtest.Request{Cmd: nbdtest.CmdRead, Offset: 64 << 10, Length: 4 << 20}); got.Error != 0 {
			t.Errorf("async %v: error %d", async, got.Error)
		}
		c = s.open(t, nbdtest.Simple)
		bad.Store(1 << 20)
		if _, err := c.Do(nbdtest.Request{Cmd: nbdtest.CmdRead, Length: 4 << 20}); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("async %v: later part: %v", async, err)
		}
		s.shutdown(t)
	}
}
