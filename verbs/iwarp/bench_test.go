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

// BenchmarkRoundTrip is a message and its answer, both sent by handlers. Compare
// with BenchmarkTCPRoundTrip: at most 1.5 times as long. A receiver blocks its
// thread, so that the test needs a GOMAXPROCS of 4 (-cpu 4) for two of them.
func BenchmarkRoundTrip(b *testing.B) {
	const size = 64
	var sides [2]*side
	var send [2]verbs.SendWR
	var recv [2]verbs.RecvWR
	left, done, made := b.N, make(chan struct{}), make(chan struct{})
	handler := func(i int) func([]verbs.WC) {
		return func(wcs []verbs.WC) {
			<-made
			for _, wc := range wcs {
				if wc.Status != verbs.WCSuccess || wc.Opcode != verbs.WCRecv {
					continue
				}
				if i == 0 {
					if left--; left == 0 {
						close(done)
						return
					}
				}
				must(b, sides[i].qp.PostRecv(recv[i:i+1]))
				must(b, sides[i].qp.PostSend(send[i:i+1]))
			}
		}
	}
	sides[0], sides[1] = tcpSides(b, "", 4096, handler(0), handler(1))
	for i, s := range sides {
		send[i].SGEs, recv[i].SGEs = s.sge(0, size), s.sge(size, size)
		must(b, s.qp.PostRecv([]verbs.RecvWR{recv[i], recv[i]}))
	}
	close(made)
	b.ResetTimer()
	must(b, sides[0].qp.PostSend(send[:1]))
	<-done
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

// BenchmarkBlockReads is the traffic of 4 KiB disk reads at depth 32: a command
// of 64 bytes is answered by an RDMA WRITE of 4 KiB and a message of 16 bytes.
func BenchmarkBlockReads(b *testing.B) {
	const depth, block = 32, 4096
	var host, disk *side
	var commands, answers [2 * depth]verbs.SendWR
	var hostRecvs, diskRecvs [depth]verbs.RecvWR
	unsent, unanswered := b.N, b.N
	done, made := make(chan struct{}), make(chan struct{})
	received := func(wcs []verbs.WC) (n int) {
		for _, wc := range wcs {
			if wc.Status == verbs.WCSuccess && wc.Opcode == verbs.WCRecv {
				n++
			}
		}
		return n
	}
	host, disk = tcpSides(b, "", 1<<20, func(wcs []verbs.WC) {
		n := received(wcs)
		if n == 0 {
			return
		}
		must(b, host.qp.PostRecv(hostRecvs[:n]))
		again := min(n, unsent)
		unsent -= again
		must(b, host.qp.PostSend(commands[:again]))
		if unanswered -= n; unanswered == 0 {
			close(done)
		}
	}, func(wcs []verbs.WC) {
		<-made
		n := received(wcs)
		must(b, disk.qp.PostRecv(diskRecvs[:n]))
		must(b, disk.qp.PostSend(answers[:2*n]))
	})
	for i := range depth {
		commands[i].SGEs = host.sge(0, 64)
		diskRecvs[i].SGEs, hostRecvs[i].SGEs = disk.sge(i*64, 64), host.sge(i*64, 64)
		answers[2*i] = verbs.SendWR{Opcode: verbs.WRRDMAWrite, SGEs: disk.sge(i*block, block), RemoteAddr: host.mr.Addr() + uint64(1<<19+i*block), RKey: host.mr.RKey()}
		answers[2*i+1] = verbs.SendWR{SGEs: disk.sge(0, 16)}
	}
	must(b, host.qp.PostRecv(hostRecvs[:]))
	must(b, disk.qp.PostRecv(diskRecvs[:]))
	close(made)
	b.ReportAllocs()
	b.ResetTimer()
	first := min(depth, unsent)
	unsent -= first
	must(b, host.qp.PostSend(commands[:first]))
	<-done
}
