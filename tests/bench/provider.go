package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"rbd/verbs"
	"rbd/verbs/iwarp"
	"rbd/verbs/perf"
)

// The provider alone, measured by package perf, against plain TCP in Go: round
// trips of 64 bytes, and a stream to the peer. The peer is another process, as a peer is: two ends in one
// process wake each other by the runtime's scheduler alone, which says nothing
// about two programs.
const (
	pingSize   = 64
	pings      = 5000
	streamMiB  = 2048
	streamSize = 1 << 20 // of one RDMA WRITE
	// streamDepth is how many RDMA WRITEs are out.
	streamDepth = 24
	tcpChunk    = 256 << 10
)

// provider prints the table of the provider alone.
func provider(rounds int) error {
	peer := exec.Command(os.Args[0], "-peer")
	peer.Stderr = os.Stderr
	stdin, err := peer.StdinPipe() // the peer ends when it is closed
	if err != nil {
		return fmt.Errorf("start the peer: %w", err)
	}
	out, err := peer.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start the peer: %w", err)
	}
	if err := peer.Start(); err != nil {
		return fmt.Errorf("start the peer: %w", err)
	}
	defer func() { _ = peer.Wait() }()
	defer stdin.Close()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the peer's addresses: %w", err)
	}
	tcpAddr, iwarpText, _ := strings.Cut(strings.TrimSpace(line), " ")
	iwarpAddr, err := verbs.ParseAddr(iwarpText, "")
	if err != nil {
		return fmt.Errorf("read the peer's addresses: %w", err)
	}
	tcp, err := net.Dial("tcp", tcpAddr)
	if err != nil {
		return fmt.Errorf("reach the peer: %w", err)
	}
	defer tcp.Close()
	p := iwarp.New()
	rdma := func(cfg perf.Config) func() (time.Duration, error) {
		return func() (time.Duration, error) {
			r, err := perf.Run(context.Background(), p, iwarpAddr, cfg)
			return r.Elapsed, err
		}
	}
	var times [4][]time.Duration
	for range rounds {
		for i, f := range []func() (time.Duration, error){
			func() (time.Duration, error) { return tcpPing(tcp) },
			rdma(perf.Config{Op: perf.SendLat, Size: pingSize, Iterations: pings}),
			func() (time.Duration, error) { return tcpStream(tcp) },
			rdma(perf.Config{Op: perf.WriteBW, Size: streamSize, Iterations: streamMiB, TxDepth: streamDepth}),
		} {
			d, err := f()
			if err != nil {
				return err
			}
			times[i] = append(times[i], d)
		}
	}
	for i := range times {
		slices.Sort(times[i])
	}
	mid := func(i int) time.Duration { return times[i][len(times[i])/2] }
	us := func(i int) float64 { return float64(mid(i).Nanoseconds()) / 1000 / pings }
	rate := func(i int) float64 { return streamMiB / mid(i).Seconds() }
	fmt.Println("\n| provider alone, two processes | iwarp | plain TCP in Go | ratio |")
	fmt.Println("|---|---:|---:|---:|")
	fmt.Printf("| SEND and RECV there and back, %d bytes | %.1f µs | %.1f µs | **%.2f** |\n", pingSize, us(1), us(0), us(1)/us(0))
	fmt.Printf("| RDMA WRITE, 1 MiB each, no CRC | %.0f MiB/s | %.0f MiB/s | **%.2f** |\n", rate(3), rate(2), rate(3)/rate(2))
	return nil
}

// servePeer is the other process: it serves one TCP connection and all tests of the
// provider, and ends with its standard input.
func servePeer() error {
	runtime.GOMAXPROCS(max(4, runtime.NumCPU()))
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	l, err := iwarp.New().Listen(context.Background(), verbs.Addr{Fabric: iwarp.Name, Host: "127.0.0.1", Port: "0"})
	if err != nil {
		return err
	}
	fmt.Println(tcp.Addr(), l.Addr())
	go func() {
		if c, err := tcp.Accept(); err == nil {
			_ = serveTCP(c) // ends with the connection
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- new(perf.Server).Serve(ctx, l) }()
	_, err = io.Copy(io.Discard, os.Stdin)
	cancel()
	if e := <-served; !errors.Is(e, context.Canceled) {
		err = errors.Join(err, e)
	}
	return err
}
