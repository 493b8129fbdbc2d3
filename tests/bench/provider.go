package main

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"rbd/verbs"
)

// The provider alone, against plain TCP in Go: round trips of 64 bytes, and a
// stream to the peer. The peer is another process, as a peer is: two ends in one
// process wake each other by the runtime's scheduler alone, which says nothing
// about two programs.
const (
	pingSize   = 64
	pings      = 5000
	streamMiB  = 2048
	streamSize = 1 << 20 // of one RDMA WRITE
	tcpChunk   = 256 << 10
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
	r, err := dialRDMA(iwarpAddr)
	if err != nil {
		return err
	}
	defer r.close()
	var times [4][]time.Duration
	for range rounds {
		for i, f := range []func() (time.Duration, error){
			func() (time.Duration, error) { return tcpPing(tcp) }, r.ping,
			func() (time.Duration, error) { return tcpStream(tcp) }, r.stream,
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
