package netfault

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Protects the tests that use the proxy: each fault is what its name says.
func TestProxy(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	p, err := New(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	join := func() (client, server net.Conn) {
		t.Helper()
		client, err := net.Dial("tcp", p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if server, err = l.Accept(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { client.Close(); server.Close() })
		client.Write([]byte("x")) // it is joined when it passes something on
		server.Read(make([]byte, 1))
		return client, server
	}
	expect := func(c net.Conn, text string) {
		t.Helper()
		buf := make([]byte, len(text))
		c.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := io.ReadFull(c, buf); err != nil || string(buf) != text {
			t.Fatalf("got %q (%v), want %q", buf, err, text)
		}
	}
	silent := func(c net.Conn) {
		t.Helper()
		c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if n, err := c.Read(make([]byte, 1)); n > 0 || !isTimeout(err) {
			t.Fatalf("%d bytes, %v; want silence", n, err)
		}
	}
	ended := func(c net.Conn, clean bool) {
		t.Helper()
		c.SetReadDeadline(time.Now().Add(5 * time.Second))
		if _, err := c.Read(make([]byte, 1)); isTimeout(err) || err == nil || errors.Is(err, io.EOF) != clean {
			t.Fatalf("got %v", err)
		}
	}

	client, server := join()
	client.Write([]byte("ask"))
	expect(server, "ask")
	server.Write([]byte("answer"))
	server.Close()
	expect(client, "answer")
	ended(client, true)

	client, server = join()
	p.Cut()
	ended(client, false)
	ended(server, false)

	client, server = join()
	p.HalfOpen()
	ended(client, false)
	silent(server)

	client, server = join()
	p.Freeze()
	client.Write([]byte("late"))
	client.Close()
	silent(server)
	p.Thaw()
	expect(server, "late")
	ended(server, true)

	client, server = join()
	p.FreezeReplies()
	server.Write([]byte("reply"))
	client.Write([]byte("request"))
	expect(server, "request")
	silent(client)
	p.Thaw()
	expect(client, "reply")

	p.Refuse(true)
	if client, err = net.Dial("tcp", p.Addr()); err == nil {
		ended(client, false)
		client.Close()
	}
	p.Refuse(false)
	client, server = join()
	server.Write([]byte("again"))
	expect(client, "again")
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
