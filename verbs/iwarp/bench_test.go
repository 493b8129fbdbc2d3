package iwarp

import (
	"context"
	"io"
	"net"
	"testing"

	"rbd/verbs"
)

// tcpPair is a plain TCP connection on loopback.
func tcpPair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if a, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// Compare with BenchmarkTCPRoundTrip: at most 1.5 times as long.
func BenchmarkRoundTrip(b *testing.B) {
	round := pingPong(b, "", 64)
	for b.Loop() {
		round()
	}
}

func BenchmarkTCPRoundTrip(b *testing.B) {
	x, y := tcpPair(b)
	go func() {
		buf := make([]byte, 64)
		for {
			if _, err := io.ReadFull(y, buf); err != nil {
				return
			}
			if _, err := y.Write(buf); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, 64)
	for b.Loop() {
		if _, err := x.Write(buf); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(x, buf); err != nil {
			b.Fatal(err)
		}
	}
}

const bulk = 1 << 20

// Compare with BenchmarkTCPStream: at least 0.8 of its bandwidth.
func BenchmarkRDMAWrite(b *testing.B)    { benchOneSided(b, "", verbs.WRRDMAWrite) }
func BenchmarkRDMAWriteCRC(b *testing.B) { benchOneSided(b, "?crc=on", verbs.WRRDMAWrite) }
func BenchmarkRDMARead(b *testing.B)     { benchOneSided(b, "", verbs.WRRDMARead) }

func benchOneSided(b *testing.B, params string, op verbs.WROpcode) {
	x, y := tcpSides(b, params, bulk, nil, nil)
	wr := []verbs.SendWR{{Opcode: op, SGEs: x.sge(0, bulk), RKey: y.mr.RKey(), RemoteAddr: y.mr.Addr(), Flags: verbs.SendSignaled}}
	b.SetBytes(bulk)
	ctx, inFlight := context.Background(), 0
	var wcs [16]verbs.WC
	for b.Loop() {
		for inFlight >= 4 {
			if err := x.cq.ReqNotify(); err != nil {
				b.Fatal(err)
			}
			n := x.cq.Poll(wcs[:])
			if inFlight -= n; n == 0 {
				if err := x.cq.Wait(ctx); err != nil {
					b.Fatal(err)
				}
			}
		}
		if err := x.qp.PostSend(wr); err != nil {
			b.Fatal(err)
		}
		inFlight++
	}
}

func BenchmarkTCPStream(b *testing.B) {
	x, y := tcpPair(b)
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, bulk)
		for {
			if _, err := y.Read(buf); err != nil {
				return
			}
		}
	}()
	buf := make([]byte, bulk)
	b.SetBytes(bulk)
	for b.Loop() {
		if _, err := x.Write(buf); err != nil {
			b.Fatal(err)
		}
	}
	x.Close()
	<-done
}
