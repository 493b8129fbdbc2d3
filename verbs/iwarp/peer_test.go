package iwarp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"rbd/verbs"
	"rbd/verbs/iwarp/internal/frame"
)

// These tests have a bare TCP socket as peer.

func background(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// rawListener is a listener of a provider and a way to dial it.
func rawListener(t *testing.T, p *Provider, params string) (l verbs.Listener, dial func() net.Conn) {
	t.Helper()
	a, err := verbs.ParseAddr("127.0.0.1:0"+params, "0")
	must(t, err)
	l, err = p.Listen(background(t), a)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l, func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().HostPort())
		must(t, err)
		must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

func send(t testing.TB, c net.Conn, b []byte) {
	t.Helper()
	_, err := c.Write(b)
	must(t, err)
}

// readFrame reads an MPA reply, which must come in one piece.
func readFrame(t *testing.T, c net.Conn) *frame.MPA {
	t.Helper()
	b := make([]byte, 1024)
	n, err := c.Read(b)
	must(t, err)
	m, err := frame.ParseMPA(b[:n], true)
	must(t, err)
	if n != frame.MPAHeaderSize+m.PrivateSize() {
		t.Fatalf("%d bytes of a frame with %d of private data", n, m.PrivateSize())
	}
	m.ParsePrivate(b[frame.MPAHeaderSize:n])
	return m
}

// readFPDUs reads the FPDUs until the end of the stream.
func readFPDUs(t *testing.T, c net.Conn) (fpdus [][]byte) {
	t.Helper()
	b, err := io.ReadAll(c)
	must(t, err)
	eachFPDU(b, func(b []byte, _ frame.Control) { fpdus = append(fpdus, b) })
	return fpdus
}

// Protects agreement with every kind of requester: the reply has the request's
// revision, echoes C, never exceeds the requester's IRD, and chooses an RTR
// message that was offered.
func TestRequests(t *testing.T) {
	param := verbs.ConnParam{ResponderResources: 6, InitiatorDepth: 6, PrivateData: []byte("hi")}
	for name, tt := range map[string]struct {
		params    string
		req, want frame.MPA
	}{
		"Linux host":        {"", frame.MPA{Revision: 2, Enhanced: true, IRD: 128}, frame.MPA{Revision: 2, Enhanced: true, ORD: 6}},
		"CRC":               {"", frame.MPA{Revision: 2, Enhanced: true, CRC: true, IRD: 2, ORD: 3}, frame.MPA{Revision: 2, Enhanced: true, CRC: true, IRD: 3, ORD: 2}},
		"CRC of ours":       {"?crc=on", frame.MPA{Revision: 2, Enhanced: true, IRD: 2, ORD: 8}, frame.MPA{Revision: 2, Enhanced: true, CRC: true, IRD: 8, ORD: 2}},
		"not negotiating":   {"", frame.MPA{Revision: 2, Enhanced: true, IRD: frame.NoNegotiation, ORD: frame.NoNegotiation}, frame.MPA{Revision: 2, Enhanced: true, IRD: 8, ORD: 6}},
		"revision 1":        {"", frame.MPA{Revision: 1, CRC: true}, frame.MPA{Revision: 1, CRC: true}},
		"revision 0":        {"", frame.MPA{}, frame.MPA{}},
		"2, not enhanced":   {"", frame.MPA{Revision: 2}, frame.MPA{Revision: 2}},
		"RTR write or read": {"", frame.MPA{Revision: 2, Enhanced: true, P2P: true, RTRSend: true, RTRWrite: true, RTRRead: true, IRD: 1}, frame.MPA{Revision: 2, Enhanced: true, P2P: true, RTRRead: true, IRD: 1, ORD: 1}},
		"RTR write":         {"", frame.MPA{Revision: 2, Enhanced: true, P2P: true, RTRWrite: true, IRD: 1}, frame.MPA{Revision: 2, Enhanced: true, P2P: true, RTRWrite: true, ORD: 1}},
		"much private data": {"", frame.MPA{Revision: 2, Enhanced: true, IRD: 1, Private: bytes.Repeat([]byte{7}, 508)}, frame.MPA{Revision: 2, Enhanced: true, ORD: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			p := New()
			l, dial := rawListener(t, p, tt.params)
			c := dial()
			for _, b := range tt.req.Append(nil) { // byte by byte
				send(t, c, []byte{b})
			}
			id, err := l.GetRequest(background(t))
			must(t, err)
			s := newSide(t, p.dev, nil, 4096).on(t, id)
			if got := id.Request(); !bytes.Equal(got.PrivateData, tt.req.Private) {
				t.Errorf("private data %x", got.PrivateData)
			}
			must(t, s.qp.PostRecv([]verbs.RecvWR{{ID: 1, SGEs: s.sge(0, 5)}}))
			_, err = id.Accept(background(t), param)
			must(t, err)
			got := readFrame(t, c)
			if !got.Reply || got.Reject || got.Markers || got.CRC != tt.want.CRC || got.Revision != tt.want.Revision || got.Enhanced != tt.want.Enhanced ||
				got.IRD != tt.want.IRD || got.ORD != tt.want.ORD || got.P2P != tt.want.P2P || got.RTRRead != tt.want.RTRRead ||
				got.RTRWrite != tt.want.RTRWrite || got.RTRSend || string(got.Private) != "hi" {
				t.Errorf("reply %+v, want %+v", got, tt.want)
			}
			first := frame.Untagged{Op: frame.OpSend, Last: true, MSN: 1, Payload: 5}.Append(nil)
			send(t, c, frame.AppendTrailer(append(first, "hello"...), 0, got.CRC))
			s.ok(t, 1)
			must(t, c.Close())
			<-id.Disconnected()
			if !errors.Is(id.Err(), verbs.ErrDisconnected) {
				t.Errorf("the end: %v", id.Err())
			}
		})
	}
}

// Protects from requests that can't be taken: no program sees them. One for
// markers gets an answer, all else just loses its connection.
func TestBadRequests(t *testing.T) {
	ok := (&frame.MPA{Revision: 2, Enhanced: true, Private: []byte("x")}).Append(nil)
	p := New(WithTimeouts(50*time.Millisecond, time.Second, time.Second))
	l, dial := rawListener(t, p, "")
	for name, b := range map[string][]byte{
		"silence": nil, "half a header": ok[:10], "half the private data": ok[:22],
		"garbage":    []byte("GET / HTTP/1.1\r\n\r\n\r\n"),
		"revision 3": (&frame.MPA{Revision: 3}).Append(nil), "a reply": (&frame.MPA{Reply: true, Revision: 2}).Append(nil),
		"no words":         append(bytes.Clone(ok[:18]), 0, 1, 7),
		"513 of private":   append(bytes.Clone(ok[:18]), append([]byte{2, 1}, make([]byte, 513)...)...),
		"65535 of private": append(bytes.Clone(ok[:18]), 255, 255),
	} {
		c := dial()
		send(t, c, b)
		if answer, _ := io.ReadAll(c); len(answer) > 0 {
			t.Errorf("%s is answered with %x", name, answer)
		}
	}
	c := dial()
	send(t, c, (&frame.MPA{Revision: 2, Enhanced: true, Markers: true}).Append(nil))
	if m := readFrame(t, c); !m.Reject || m.Markers || !m.Enhanced {
		t.Errorf("a request for markers is answered with %+v", m)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if id, err := l.GetRequest(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("GetRequest: %v, %v", id, err)
	}
}

// Protects from initiators that do not wait for the reply.
func TestDataBehindRequest(t *testing.T) {
	p := New()
	l, dial := rawListener(t, p, "")
	c := dial()
	send(t, c, append((&frame.MPA{Revision: 2, Enhanced: true}).Append(nil), tagged(frame.Tagged{Last: true})...))
	id, err := l.GetRequest(background(t))
	must(t, err)
	newSide(t, p.dev, nil, 4096).on(t, id)
	if _, err := id.Accept(background(t), verbs.ConnParam{}); err == nil {
		t.Error("Accept takes it")
	}
	if answer, _ := io.ReadAll(c); len(answer) > 0 {
		t.Errorf("it is answered with %x", answer)
	}
}

// Protects the rule that the passive side sends nothing before the first FPDU.
func TestPassiveSideWaits(t *testing.T) {
	p := New()
	l, dial := rawListener(t, p, "")
	c := dial()
	send(t, c, (&frame.MPA{Revision: 2, Enhanced: true, IRD: 1}).Append(nil))
	id, err := l.GetRequest(background(t))
	must(t, err)
	s := newSide(t, p.dev, nil, 4096).on(t, id)
	_, err = id.Accept(background(t), verbs.ConnParam{})
	must(t, err)
	must(t, s.qp.PostSend([]verbs.SendWR{{ID: 1, SGEs: s.sge(0, 8), Flags: verbs.SendSignaled}}))
	readFrame(t, c)
	must(t, c.SetReadDeadline(time.Now().Add(30*time.Millisecond)))
	if n, err := c.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Fatalf("something was sent before the first FPDU: %d, %v", n, err)
	}
	must(t, c.SetReadDeadline(time.Time{}))
	send(t, c, tagged(frame.Tagged{Last: true, STag: 1}))
	s.ok(t, 1)
	_, err = io.ReadFull(c, make([]byte, 32))
	must(t, err)
}

// answering is a peer that answers the first request with b and then reads on.
func answering(t *testing.T, b []byte, hangUp bool) verbs.Addr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.ReadFull(c, make([]byte, frame.MPAHeaderSize+4))
		_, _ = c.Write(b)
		if !hangUp {
			_, _ = io.Copy(io.Discard, c)
		}
	}()
	a, err := verbs.ParseAddr(l.Addr().String(), "0")
	must(t, err)
	return a
}

// Protects agreement with every kind of answer, and the words for a refusal.
func TestReplies(t *testing.T) {
	reply := func(change func(m *frame.MPA)) []byte {
		m := &frame.MPA{Reply: true, Revision: 2, Enhanced: true, IRD: 4, ORD: 4}
		change(m)
		return m.Append(nil)
	}
	for name, tt := range map[string]struct {
		bytes  []byte
		hangUp bool
		want   string // in the error; "" for success
	}{
		"accept":             {reply(func(*frame.MPA) {}), false, ""},
		"revision 1":         {reply(func(m *frame.MPA) { m.Revision, m.Enhanced = 1, false }), false, ""},
		"CRC":                {reply(func(m *frame.MPA) { m.CRC = true }), false, ""},
		"reject":             {reply(func(m *frame.MPA) { m.Reject, m.Private = true, []byte("no") }), true, "rejected by the peer (2 bytes"},
		"reject for markers": {reply(func(m *frame.MPA) { m.Reject, m.Markers = true, true }), true, "insists on MPA markers"},
		"markers":            {reply(func(m *frame.MPA) { m.Markers = true }), false, "markers"},
		"revision 3":         {reply(func(m *frame.MPA) { m.Revision = 3 }), false, "revision 3"},
		"a request":          {reply(func(m *frame.MPA) { m.Reply = false }), false, "not an iWARP"},
		"SSH":                {[]byte("SSH-2.0-OpenSSH_9.2\r\n"), false, "not an iWARP"},
		"a short answer":     {[]byte("220 hi\r\n"), true, "not an iWARP"},
		"half a header":      {reply(func(*frame.MPA) {})[:12], true, "not an iWARP"},
		"half of the rest":   {reply(func(*frame.MPA) {})[:22], true, "private data"},
		"hang-up":            {nil, true, "without an MPA reply"},
		"silence":            {nil, false, "no MPA reply within 60ms"},
	} {
		t.Run(name, func(t *testing.T) {
			p := New(WithTimeouts(time.Second, 60*time.Millisecond, time.Second))
			id, err := p.ResolveAddr(background(t), answering(t, tt.bytes, tt.hangUp))
			must(t, err)
			s := newSide(t, p.dev, nil, 4096).on(t, id)
			_, err = id.Connect(background(t), verbs.ConnParam{ResponderResources: 1, InitiatorDepth: 8})
			switch {
			case tt.want == "" && err != nil:
				t.Error(err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("%v, want %q", err, tt.want)
			case tt.want != "" && s.qp.State() != verbs.QPStateERR:
				t.Errorf("QP is in %s", s.qp.State())
			}
		})
	}
}

// Protects the other side of a damaged stream: it is told of the CRC.
func TestCRCMismatchOverTCP(t *testing.T) {
	p := New()
	l, dial := rawListener(t, p, "")
	c := dial()
	send(t, c, (&frame.MPA{Revision: 2, Enhanced: true, CRC: true}).Append(nil))
	id, err := l.GetRequest(background(t))
	must(t, err)
	newSide(t, p.dev, nil, 4096).on(t, id)
	_, err = id.Accept(background(t), verbs.ConnParam{})
	must(t, err)
	readFrame(t, c)
	send(t, c, tagged(frame.Tagged{Last: true, STag: 1})) // its CRC is zero
	fpdus := readFPDUs(t, c)
	if len(fpdus) != 1 || !frame.CheckCRC(fpdus[0]) {
		t.Fatalf("%x", fpdus)
	}
	term, _ := frame.ParseTerminate(fpdus[0][frame.UntaggedSize:])
	if term.TermCode != frame.TermMPACRC {
		t.Errorf("Terminate: %s", term.TermCode)
	}
	<-id.Disconnected()
	if err := id.Err(); err == nil || !strings.Contains(err.Error(), "CRC") {
		t.Errorf("the end: %v", err)
	}
}

// Protects the program from a stream that ends anywhere: work is flushed, and
// only an end between messages is called orderly.
func TestLossAtEveryByte(t *testing.T) {
	p := New()
	l, dial := rawListener(t, p, "")
	stream := join(
		untagged(frame.Untagged{Op: frame.OpSend, MSN: 1, Payload: 4}),
		untagged(frame.Untagged{Op: frame.OpSend, Last: true, MSN: 1, MO: 4, Payload: 3}),
		tagged(frame.Tagged{Last: true, STag: 1}))
	orderly := map[int]bool{0: true, 28 + 28: true, len(stream): true}
	for n := 0; n <= len(stream); n++ {
		c := dial()
		send(t, c, (&frame.MPA{Revision: 2, Enhanced: true}).Append(nil))
		id, err := l.GetRequest(background(t))
		must(t, err)
		s := newSide(t, p.dev, nil, 4096).on(t, id)
		must(t, s.qp.PostRecv([]verbs.RecvWR{{ID: 1, SGEs: s.sge(0, 8)}, {ID: 2}}))
		_, err = id.Accept(background(t), verbs.ConnParam{})
		must(t, err)
		readFrame(t, c)
		send(t, c, stream[:n])
		must(t, c.Close())
		<-id.Disconnected()
		if got := errors.Is(id.Err(), verbs.ErrDisconnected); got != orderly[n] {
			t.Errorf("end after %d bytes: %v", n, id.Err())
		}
		want := verbs.WCWRFlushErr
		if n >= 56 {
			want = verbs.WCSuccess
		}
		if wcs := s.take(t, 2); wcs[0].ID != 1 || wcs[0].Status != want || wcs[1].ID != 2 || wcs[1].Status != verbs.WCWRFlushErr {
			t.Errorf("end after %d bytes: %+v", n, wcs)
		}
		must(t, id.Destroy())
	}
}
