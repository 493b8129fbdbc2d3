package iwarp_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"rbd/verbs"
	"rbd/verbs/iwarp"
	"rbd/verbs/verbstest"
)

// TestConformance runs the suite that every provider must pass, without and with
// CRC.
func TestConformance(t *testing.T) {
	for _, crc := range []string{"off", "on"} {
		t.Run("crc="+crc, func(t *testing.T) { verbstest.Test(t, fabric(t, "?crc="+crc)) })
	}
}

func fabric(t testing.TB, params string) verbstest.Fabric {
	t.Helper()
	f := verbstest.Fabric{Provider: iwarp.New(), Listen: address(t, "127.0.0.1:0"+params), NotRDMA: notRDMA}
	if l, err := net.Listen("tcp", "[::1]:0"); err == nil {
		_ = l.Close()
		f.ListenIPv6 = address(t, "[::1]:0"+params)
	}
	return f
}

func address(t testing.TB, s string) verbs.Addr {
	t.Helper()
	a, err := verbs.ParseAddr(s, "0")
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// notRDMA is a TCP server of another protocol: it greets, and then only reads.
func notRDMA(t testing.TB, greeting []byte) verbs.Addr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		c, err := l.Accept()
		if err != nil {
			return
		}
		// The client may hang up at any time, which is its right.
		_, _ = c.Write(greeting)
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-served
	})
	return address(t, l.Addr().String())
}

// rawEnv is the surroundings for a test whose peer is a bare TCP socket.
func rawEnv(t *testing.T) *verbstest.Env {
	t.Helper()
	f := fabric(t, "")
	devs, err := f.Provider.Devices()
	if err != nil {
		t.Fatal(err)
	}
	return &verbstest.Env{T: t, Fabric: f, Device: devs[0]}
}

func dialRaw(t *testing.T, l verbs.Listener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().HostPort())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

func write(t *testing.T, c net.Conn, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatal(err)
	}
}

// mpaRequest is the frame of an active side with the read resources: revision 2,
// enhanced, no CRC.
func mpaRequest(ird, ord uint16) []byte {
	b := append([]byte("MPA ID Req Frame"), 0x10, 2, 0, 4)
	b = binary.BigEndian.AppendUint16(b, ird)
	return binary.BigEndian.AppendUint16(b, ord)
}

// readRequest is the FPDU of an RDMA READ.
func readRequest(msn, size, rkey uint32, addr uint64) []byte {
	b := []byte{0, 46, 0x41, 0x41, 0, 0, 0, 0, 0, 0, 0, 1}
	b = binary.BigEndian.AppendUint32(b, msn)
	b = append(b, make([]byte, 4+4+8)...) // offset 0; sink key and address 0
	b = binary.BigEndian.AppendUint32(b, size)
	b = binary.BigEndian.AppendUint32(b, rkey)
	b = binary.BigEndian.AppendUint64(b, addr)
	return append(b, 0, 0, 0, 0) // no CRC
}

// lastFPDU is the last of the FPDUs that arrive until the end of the stream.
func lastFPDU(t *testing.T, c net.Conn) []byte {
	t.Helper()
	stream, err := io.ReadAll(c)
	if err != nil {
		t.Fatalf("read until the end of the stream: %v", err)
	}
	var last []byte
	for len(stream) > 0 {
		if len(stream) < 2 {
			t.Fatalf("%d bytes behind the last FPDU", len(stream))
		}
		n := (2+int(binary.BigEndian.Uint16(stream))+3)/4*4 + 4
		if len(stream) < n {
			t.Fatalf("the last FPDU has %d of %d bytes", len(stream), n)
		}
		last, stream = stream[:n], stream[n:]
	}
	return last
}

// Protects memory and the other connections from a peer that has more RDMA READs
// outstanding than was negotiated: it is cut, and told why (RFC 5040 section
// 8.2: remote operation error, catastrophic, localized to the stream).
func TestPeerExceedsReadDepth(t *testing.T) {
	const size = 1 << 20
	e := rawEnv(t)
	other := e.Pair(nil)
	l := e.Listen()
	c := dialRaw(t, l)
	write(t, c, mpaRequest(1, 1))
	s := e.Passive(l, func(o *verbstest.SideOpts) {
		o.Param = verbs.ConnParam{ResponderResources: 1, InitiatorDepth: 1}
	})
	s.PostEmptyRecvs(1, 3)
	mem := s.Region(size, verbs.AccessRemoteRead)
	s.Accept()
	reply := make([]byte, 24)
	if _, err := io.ReadFull(c, reply); err != nil {
		t.Fatal(err)
	}
	var requests []byte
	for msn := range uint32(64) {
		requests = append(requests, readRequest(1+msn, size, mem.MR.RKey(), mem.Addr(0))...)
	}
	write(t, c, requests)
	term := lastFPDU(t, c)
	if !bytes.Equal(term[2:4], []byte{0x41, 0x47}) || !bytes.Equal(term[20:22], []byte{0x02, 0x07}) {
		t.Errorf("the last FPDU is %x, want a Terminate with code 02 07", term[:min(len(term), 32)])
	}
	if err := s.Ended(); errors.Is(err, verbs.ErrDisconnected) {
		t.Errorf("the end is called orderly: %v", err)
	}
	s.Recv.Flushed(1, 3)
	other.RoundTrip()
}

// Protects listeners from what is no request: it is not seen, and does not keep
// others out.
func TestGarbageRequests(t *testing.T) {
	e := rawEnv(t)
	l := e.Listen()
	request := mpaRequest(1, 1)
	long := append([]byte(nil), request...)
	long[19] = 200
	for _, b := range [][]byte{nil, {'M'}, []byte("GET / HTTP/1.1\r\nHost: storage.example\r\n\r\n"), bytes.Repeat([]byte{0xff}, 5000), request[:19], request[:23], long} {
		c := dialRaw(t, l)
		write(t, c, b)
		// The listener may have reset the connection by now, as it had unread data.
		_ = c.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, c)
	}
	p := e.PairOn(l, l.Addr(), nil)
	if got, want := p.Server.ID.RemoteAddr().String(), p.Client.ID.LocalAddr().String(); got != want {
		t.Errorf("the request is of %v, want that of %v", got, want)
	}
}
