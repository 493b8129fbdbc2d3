package nbd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"rbd/nbd"
	"rbd/nbd/nbdtest"
)

// Every command does what it says, in every reply mode, on unix and TCP sockets.
func TestCommands(t *testing.T) {
	ram := newRAM(t, 1<<20)
	s := start(t, nbdtest.Sparse{RAM: ram})
	for _, network := range []string{"unix", "tcp"} {
		if network != "unix" {
			s.listen(t, network)
		}
		for _, mode := range modes {
			t.Run(fmt.Sprintf("%s %v", network, mode), func(t *testing.T) {
				clear(ram.Data)
				c := s.open(t, mode)
				if c.Size != 1<<20 {
					t.Errorf("size is %d", c.Size)
				}
				want := pattern(make([]byte, 8192), int(mode))
				ok := func(r nbdtest.Request) nbdtest.Reply {
					t.Helper()
					r.Cookie = 0xfeedface00000000 + uint64(r.Cmd)
					reply := do(t, c, r)
					if reply.Error != 0 {
						t.Fatalf("command %d: error %d", r.Cmd, reply.Error)
					}
					return reply
				}
				ok(nbdtest.Request{Cmd: nbdtest.CmdWrite, Offset: 4096, Payload: want})
				ok(nbdtest.Request{Cmd: nbdtest.CmdFlush})
				if got := ok(nbdtest.Request{Cmd: nbdtest.CmdRead, Offset: 4096, Length: 8192}).Data; !bytes.Equal(got, want) {
					t.Error("read differs from write")
				}
				if mode != nbdtest.Simple {
					checkExtents(t, ok(nbdtest.Request{Cmd: nbdtest.CmdBlockStatus, Length: 1 << 20}).Data, mode,
						[][2]uint64{{4096, 3}, {8192, 0}, {1<<20 - 12288, 3}})
					checkExtents(t, ok(nbdtest.Request{Cmd: nbdtest.CmdBlockStatus, Flags: nbdtest.FlagReqOne, Offset: 4096, Length: 1 << 19}).Data, mode,
						[][2]uint64{{8192, 0}})
				}
				ok(nbdtest.Request{Cmd: nbdtest.CmdWriteZeroes, Flags: nbdtest.FlagNoHole | nbdtest.FlagFUA, Offset: 4096, Length: 4096})
				ok(nbdtest.Request{Cmd: nbdtest.CmdTrim, Offset: 8192, Length: 4096})
				ok(nbdtest.Request{Cmd: nbdtest.CmdCache, Length: 1 << 20})
				if !bytes.Equal(ram.Data, make([]byte, 1<<20)) {
					t.Error("device is not zero")
				}
				if err := c.Send(nbdtest.Request{Cmd: nbdtest.CmdDisc}); err != nil {
					t.Fatal(err)
				}
				if rest := expectClosed(t, c); len(rest) != 0 {
					t.Errorf("%d bytes after NBD_CMD_DISC", len(rest))
				}
			})
		}
	}
}

// checkExtents takes apart the payload of a block status chunk.
func checkExtents(t *testing.T, b []byte, mode nbdtest.Mode, want [][2]uint64) {
	t.Helper()
	got := fmt.Sprintf("%x", b)
	w := "00000001"
	form := "%08x%08x"
	if mode == nbdtest.Extended {
		w += fmt.Sprintf("%08x", len(want))
		form = "%016x%016x"
	}
	for _, e := range want {
		w += fmt.Sprintf(form, e[0], e[1])
	}
	if got != w {
		t.Errorf("extents are %s, want %s", got, w)
	}
}

// A device without allocation knowledge is allocated everywhere; a client may
// name the contexts it wants.
func TestBlockStatusWithoutExtents(t *testing.T) {
	c := start(t, newRAM(t, 1<<20)).open(t, nbdtest.Extended)
	checkExtents(t, do(t, c, nbdtest.Request{Cmd: nbdtest.CmdBlockStatus, Offset: 512, Length: 1 << 19}).Data, nbdtest.Extended, [][2]uint64{{1 << 19, 0}})
	payload := []byte{0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 1}
	checkExtents(t, do(t, c, nbdtest.Request{Cmd: nbdtest.CmdBlockStatus, Flags: nbdtest.FlagPayloadLen, Payload: payload}).Data, nbdtest.Extended, [][2]uint64{{4096, 0}})
}

// What a device reports reaches the client as its own reply to that request
// alone; NBD_ENOTSUP is for fast zeroes only.
func TestDeviceErrors(t *testing.T) {
	ram := newRAM(t, 1<<20)
	ram.Fault = func(r *nbd.Request) error {
		switch {
		case r.FastZero, r.Op == nbd.OpTrim:
			return nbd.ErrNotSupported
		case r.Offset == 4096:
			return fmt.Errorf("medium error: %w", nbd.ErrIO)
		case r.Offset == 8192:
			return errors.New("unknown trouble")
		}
		return nil
	}
	s := start(t, ram)
	for _, mode := range modes {
		c := s.open(t, mode)
		for _, tt := range []struct {
			r    nbdtest.Request
			want uint32
		}{
			{nbdtest.Request{Cmd: nbdtest.CmdRead, Offset: 4096, Length: 512}, 5},
			{nbdtest.Request{Cmd: nbdtest.CmdWrite, Offset: 8192, Payload: make([]byte, 512)}, 5},
			{nbdtest.Request{Cmd: nbdtest.CmdWriteZeroes, Flags: nbdtest.FlagFastZero, Length: 512}, 95},
			{nbdtest.Request{Cmd: nbdtest.CmdTrim, Length: 512}, 22},
			{nbdtest.Request{Cmd: nbdtest.CmdRead, Length: 512}, 0},
		} {
			if got := do(t, c, tt.r).Error; got != tt.want {
				t.Errorf("%v: %+v: error %d, want %d", mode, tt.r, got, tt.want)
			}
		}
	}
}

// A device that has no memory to give fails the requests that need some; their
// payload is skipped, and the others are served.
func TestAllocError(t *testing.T) {
	ram := newRAM(t, 1<<20)
	ram.AllocError = nbd.ErrNoMemory
	ram.DeviceInfo.MaxTransfer = 64 << 10
	s := start(t, ram)
	for _, mode := range modes {
		c := s.open(t, mode)
		for _, tt := range []struct {
			r    nbdtest.Request
			want uint32
		}{
			{nbdtest.Request{Cmd: nbdtest.CmdRead, Length: 512}, 12},
			{nbdtest.Request{Cmd: nbdtest.CmdRead, Length: 300000}, 12},
			{nbdtest.Request{Cmd: nbdtest.CmdWrite, Payload: make([]byte, 512)}, 12},
			{nbdtest.Request{Cmd: nbdtest.CmdWrite, Payload: make([]byte, 300000)}, 12},
			{nbdtest.Request{Cmd: nbdtest.CmdWriteZeroes, Length: 512}, 0},
		} {
			if got := do(t, c, tt.r).Error; got != tt.want {
				t.Errorf("%v: command %d: error %d, want %d", mode, tt.r.Cmd, got, tt.want)
			}
		}
	}
}

// statusDevice answers block status by a function.
type statusDevice struct {
	*nbdtest.RAM
	status func(extents []nbd.Extent) (int, error)
}

func (d statusDevice) BlockStatus(_ context.Context, _, _ uint64, extents []nbd.Extent) (int, error) {
	return d.status(extents)
}

// Block status that a device can't tell is an error of that request; extents
// beyond the request or of no length don't reach the client.
func TestBlockStatusErrors(t *testing.T) {
	status := make(chan func([]nbd.Extent) (int, error), 1)
	s := start(t, statusDevice{newRAM(t, 1<<20), func(e []nbd.Extent) (int, error) { return (<-status)(e) }})
	for _, mode := range modes[1:] {
		c := s.open(t, mode)
		ask := nbdtest.Request{Cmd: nbdtest.CmdBlockStatus, Length: 4096}
		for want, f := range map[uint32]func([]nbd.Extent) (int, error){
			1: func([]nbd.Extent) (int, error) { return 0, nbd.ErrPermission },
			5: func(e []nbd.Extent) (int, error) { e[0].Length = 0; return 1, nil },
		} {
			status <- f
			if got := do(t, c, ask).Error; got != want {
				t.Errorf("%v: error %d, want %d", mode, got, want)
			}
		}
		status <- func(e []nbd.Extent) (int, error) { e[0] = nbd.Extent{Length: 1 << 40, Zero: true}; return 1, nil }
		checkExtents(t, do(t, c, ask).Data, mode, [][2]uint64{{4096, 2}})
	}
}

// Many requests at once on a device that completes them in any order: each
// cookie is answered once, with the right data, on several connections.
func TestManyInFlight(t *testing.T) {
	ram := newRAM(t, 1<<20)
	pattern(ram.Data, 1)
	ram.Async = true
	s := start(t, ram)
	const perConn = 1500
	var wg sync.WaitGroup
	for _, mode := range []nbdtest.Mode{nbdtest.Structured, nbdtest.Extended} {
		c := s.open(t, mode)
		wg.Go(func() {
			for i := 0; i < perConn; i += 10 {
				var reqs []nbdtest.Request
				for k := range uint64(10) {
					n := uint64(i) + k
					reqs = append(reqs, nbdtest.Request{Cmd: nbdtest.CmdRead, Cookie: n, Offset: n * 600, Length: 1 + n*37%9000})
				}
				if err := c.Send(reqs...); err != nil {
					t.Error(err)
					return
				}
			}
		})
		wg.Go(func() {
			seen := make([]bool, perConn)
			for range perConn {
				r, err := c.Recv()
				if err != nil || r.Cookie >= perConn || seen[r.Cookie] || !r.Done {
					t.Errorf("%v: %+v: %v", mode, r.Cookie, err)
					return
				}
				seen[r.Cookie] = true
				at := r.Cookie * 600
				if n := 1 + r.Cookie*37%9000; uint64(len(r.Data)) != n || !bytes.Equal(r.Data, ram.Data[at:at+n]) {
					t.Errorf("%v: reply to %d has wrong data", mode, r.Cookie)
					return
				}
			}
		})
	}
	wg.Wait()
}

// Cookies are the client's: the same one in many requests is answered as often.
func TestRepeatedCookies(t *testing.T) {
	ram := newRAM(t, 1<<20)
	ram.Async = true
	c := start(t, ram).open(t, nbdtest.Structured)
	reqs := make([]nbdtest.Request, 600)
	for i := range reqs {
		reqs[i] = nbdtest.Request{Cmd: nbdtest.CmdCache, Cookie: 7, Length: 512}
		if i%2 == 0 {
			reqs[i].Cmd = nbdtest.CmdRead
		}
	}
	if err := c.Send(reqs...); err != nil {
		t.Fatal(err)
	}
	for i := range reqs {
		if r, err := c.Recv(); err != nil || r.Cookie != 7 || r.Error != 0 {
			t.Fatalf("reply %d: %+v, %v", i, r.Cookie, err)
		}
	}
}

// NBD_CMD_DISC and the end of the stream let what is in flight finish.
func TestDisconnectAnswersFirst(t *testing.T) {
	for _, how := range []string{"NBD_CMD_DISC", "end of stream"} {
		ram := newRAM(t, 1<<20)
		ram.Async, ram.Delay = true, 20*time.Millisecond
		c := start(t, ram).open(t, nbdtest.Structured)
		var reqs []nbdtest.Request
		for i := range uint64(20) {
			reqs = append(reqs, nbdtest.Request{Cmd: nbdtest.CmdRead, Cookie: i, Length: 512})
		}
		if how == "NBD_CMD_DISC" {
			reqs = append(reqs, nbdtest.Request{Cmd: nbdtest.CmdDisc})
		}
		if err := c.Send(reqs...); err != nil {
			t.Fatal(err)
		}
		if how != "NBD_CMD_DISC" {
			c.Conn.(*net.UnixConn).CloseWrite()
		}
		for i := range 20 {
			if _, err := c.Recv(); err != nil {
				t.Fatalf("%s: reply %d: %v", how, i, err)
			}
		}
		if _, err := c.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", how, err)
		}
	}
}

// newHangingRAM is a device that says when its first request has come, and holds
// it and what follows until it may finish.
func newHangingRAM(t *testing.T) (ram *nbdtest.RAM, started, finish chan struct{}) {
	ram = newRAM(t, 1<<20)
	started, finish = make(chan struct{}), make(chan struct{})
	ram.Async = true
	var once sync.Once
	ram.Fault = func(*nbd.Request) error { once.Do(func() { close(started) }); <-finish; return nil }
	return ram, started, finish
}

// Shutdown answers what the device has, and closes; nothing new is read.
func TestShutdownAnswers(t *testing.T) {
	ram, started, finish := newHangingRAM(t)
	s := start(t, ram)
	c := s.open(t, nbdtest.Simple)
	idle := s.open(t, nbdtest.Simple)
	halfway := s.dial(t)
	if err := c.Send(nbdtest.Request{Cmd: nbdtest.CmdRead, Cookie: 1, Length: 512}); err != nil {
		t.Fatal(err)
	}
	<-started
	time.AfterFunc(30*time.Millisecond, func() { close(finish) })
	s.shutdown(t)
	if r, err := c.Recv(); err != nil || r.Cookie != 1 || r.Error != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	expectClosed(t, c)
	expectClosed(t, idle)
	expectClosed(t, halfway)
	if _, err := net.Dial("unix", s.addr.String()); err == nil {
		t.Error("still listening")
	}
}

// Shutdown comes while the reader waits for something: the command in hand is
// dropped, never answered, and leaves nothing behind.
func TestShutdownInTheMidst(t *testing.T) {
	first := nbdtest.Request{Cmd: nbdtest.CmdRead, Cookie: 1, Length: 512}
	for name, tt := range map[string]struct {
		mode nbdtest.Mode
		r    nbdtest.Request
	}{
		"in order, for the others":    {nbdtest.Simple, nbdtest.Request{Cmd: nbdtest.CmdRead, Cookie: 2, Length: 1 << 20}},
		"parts of a read, for memory": {nbdtest.Structured, nbdtest.Request{Cmd: nbdtest.CmdRead, Cookie: 2, Length: 1 << 20}},
		"parts of a write":            {nbdtest.Simple, nbdtest.Request{Cmd: nbdtest.CmdWrite, Cookie: 2, Payload: make([]byte, 1<<19)}},
		"parts of a trim, for slots":  {nbdtest.Simple, nbdtest.Request{Cmd: nbdtest.CmdTrim, Cookie: 2, Length: 1 << 20}},
	} {
		t.Run(name, func(t *testing.T) {
			ram, started, finish := newHangingRAM(t)
			ram.Memory = 256 << 10
			ram.DeviceInfo.MaxTransfer, ram.DeviceInfo.MaxTrim = 64<<10, 512
			s := start(t, ram)
			c := s.open(t, tt.mode)
			go c.Send(first, tt.r)
			<-started
			time.Sleep(5 * time.Millisecond) // the reader gets on to the second
			time.AfterFunc(20*time.Millisecond, func() { close(finish) })
			s.shutdown(t)
			for {
				r, err := c.Recv()
				if err != nil {
					break
				}
				if r.Cookie == 2 && (r.Done || tt.mode == nbdtest.Simple) {
					t.Errorf("the command was answered: %+v", r.Error)
				}
			}
		})
	}
}

// A command of a client may have more parts than a server should wait for.
func TestShutdownDuringEndlessCommand(t *testing.T) {
	ram := newRAM(t, 1<<20)
	ram.DeviceInfo.Size, ram.DeviceInfo.MaxZero = 1<<60, 512
	started := make(chan struct{})
	var once sync.Once
	ram.Fault = func(*nbd.Request) error { once.Do(func() { close(started) }); return nbd.ErrIO }
	s := start(t, ram)
	if err := s.open(t, nbdtest.Extended).Send(nbdtest.Request{Cmd: nbdtest.CmdWriteZeroes, Length: 1 << 60}); err != nil {
		t.Fatal(err)
	}
	<-started
	s.shutdown(t)
}

// A device that hangs does not keep Shutdown beyond its time, nor the client.
func TestShutdownIsBounded(t *testing.T) {
	ram, started, finish := newHangingRAM(t)
	s := start(t, ram)
	c := s.open(t, nbdtest.Simple)
	if err := c.Send(nbdtest.Request{Cmd: nbdtest.CmdRead, Length: 512}); err != nil {
		t.Fatal(err)
	}
	<-started
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shutdown: %v", err)
	}
	if rest := expectClosed(t, c); len(rest) != 0 {
		t.Errorf("client got %d bytes", len(rest))
	}
	close(finish)
}

// A client that does not take its replies can't hold up Shutdown, nor can one
// that takes them slowly lose any.
func TestShutdownWithUnreadReplies(t *testing.T) {
	ram := newRAM(t, 1<<20)
	var reads atomic.Int64
	ram.Fault = func(*nbd.Request) error { reads.Add(1); return nil }
	s := start(t, ram, nbd.SetStall(500*time.Millisecond))
	stuck, slow := s.open(t, nbdtest.Structured), s.open(t, nbdtest.Structured)
	const count = 20
	for i := range uint64(count) {
		r := nbdtest.Request{Cmd: nbdtest.CmdRead, Cookie: i, Length: 1 << 20}
		if err := errors.Join(stuck.Send(r), slow.Send(r)); err != nil {
			t.Fatal(err)
		}
	}
	for reads.Load() < 2*count {
		time.Sleep(time.Millisecond)
	}
	done := make(chan struct{})
	go func() { s.shutdown(t); close(done) }()
	for i := range count {
		time.Sleep(10 * time.Millisecond)
		if _, err := slow.Recv(); err != nil {
			t.Fatalf("reply %d: %v", i, err)
		}
	}
	<-done
}

// A client that does not finish its handshake is closed; one that has is not.
func TestHandshakeTimeout(t *testing.T) {
	s := start(t, newRAM(t, 1<<20), func(s *nbd.Server) { s.HandshakeTimeout = 50 * time.Millisecond })
	open := s.open(t, nbdtest.Simple)
	slow := s.dial(t)
	if n := len(expectClosed(t, slow)); n != 18 {
		t.Errorf("client got %d bytes", n)
	}
	if r := do(t, open, nbdtest.Request{Cmd: nbdtest.CmdRead, Length: 512}); r.Error != 0 {
		t.Errorf("error %d", r.Error)
	}
}

// Connections over the limit are closed, and room is made when one ends.
func TestMaxConns(t *testing.T) {
	s := start(t, newRAM(t, 1<<20), func(s *nbd.Server) { s.MaxConns = 1 })
	first := s.open(t, nbdtest.Simple)
	if n := len(expectClosed(t, s.dial(t))); n != 0 {
		t.Errorf("second client got %d bytes", n)
	}
	first.Close()
	deadline := time.Now().Add(patience)
	for {
		c, err := nbdtest.Open(s.dial(t), "disk", nbdtest.Simple, false)
		if err == nil {
			do(t, c, nbdtest.Request{Cmd: nbdtest.CmdRead, Length: 512})
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("no room after the first client left")
		}
	}
}

// An export that can't be opened costs the one client its connection.
func TestOpenQueueError(t *testing.T) {
	ram := newRAM(t, 1<<20)
	ram.OpenError = errors.New("no such controller")
	s := start(t, ram)
	expectClosed(t, s.open(t, nbdtest.Simple))
	ram2 := start(t, newRAM(t, 1<<20))
	do(t, ram2.open(t, nbdtest.Simple), nbdtest.Request{Cmd: nbdtest.CmdRead, Length: 512})
}

// brokenListener fails for want of descriptors before it accepts one connection,
// and then for good.
type brokenListener struct {
	net.Listener
	conns chan net.Conn
	err   error
}

func (l *brokenListener) Accept() (net.Conn, error) {
	if err := l.err; err != nil {
		l.err = nil
		return nil, err
	}
	if c, ok := <-l.conns; ok {
		return c, nil
	}
	return nil, io.ErrClosedPipe
}

// Want of descriptors passes; an error that does not is told.
func TestAcceptErrors(t *testing.T) {
	s, err := nbd.NewServer([]nbd.Export{{Name: "disk", Device: newRAM(t, 1<<20)}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &brokenListener{inner, make(chan net.Conn, 1), &net.OpError{Op: "accept", Err: syscall.EMFILE}}
	client, server := socketPair(t)
	l.conns <- server
	close(l.conns)
	if err := s.Serve(t.Context(), l); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("serve: %v", err)
	}
	client.SetDeadline(time.Now().Add(patience))
	if _, err := nbdtest.Open(client, "disk", nbdtest.Simple, false); err != nil {
		t.Errorf("the connection accepted before: %v", err)
	}
	client.Close()
	(&running{Server: s}).shutdown(t)
	pipe, other := net.Pipe()
	defer other.Close()
	if err := s.ServeConn(pipe); err == nil {
		t.Error("a connection without a file descriptor was served")
	}
}

// Exports that can't be told apart or named are refused at the start.
func TestNewServer(t *testing.T) {
	ram := newRAM(t, 1<<20)
	broken := newRAM(t, 1<<20)
	broken.DeviceInfo.MinBlock = 3
	for name, exports := range map[string][]nbd.Export{
		"none":      nil,
		"same name": {{Name: "a", Device: ram}, {Name: "a", Device: ram}},
		"NUL":       {{Name: "a\x00", Device: ram}},
		"no UTF-8":  {{Name: "\xff", Device: ram}},
		"too long":  {{Name: string(make([]byte, 5000)), Device: ram}},
		"broken":    {{Name: "a", Device: broken}},
	} {
		if _, err := nbd.NewServer(exports, nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
