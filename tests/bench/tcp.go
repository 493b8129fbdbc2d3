package main

import (
	"fmt"
	"io"
	"net"
	"time"
)

// The TCP side of the comparison: a byte says what comes, 'p' for one ping of
// pingSize bytes, 's' for a stream of streamMiB that is answered with one byte.

func tcpPing(c net.Conn) (time.Duration, error) {
	buf := make([]byte, pingSize)
	buf[0] = 'p'
	begun := time.Now()
	for range pings {
		if _, err := c.Write(buf); err != nil {
			return 0, fmt.Errorf("ping: %w", err)
		}
		if _, err := io.ReadFull(c, buf); err != nil {
			return 0, fmt.Errorf("ping: %w", err)
		}
	}
	return time.Since(begun), nil
}

func tcpStream(c net.Conn) (time.Duration, error) {
	buf := make([]byte, tcpChunk)
	head := make([]byte, pingSize)
	head[0] = 's'
	begun := time.Now()
	if _, err := c.Write(head); err != nil {
		return 0, fmt.Errorf("stream: %w", err)
	}
	for range streamMiB << 20 / tcpChunk {
		if _, err := c.Write(buf); err != nil {
			return 0, fmt.Errorf("stream: %w", err)
		}
	}
	if _, err := io.ReadFull(c, head[:1]); err != nil {
		return 0, fmt.Errorf("stream: %w", err)
	}
	return time.Since(begun), nil
}

func serveTCP(c net.Conn) error {
	buf := make([]byte, tcpChunk)
	for {
		if _, err := io.ReadFull(c, buf[:pingSize]); err != nil {
			return err
		}
		answer := buf[:pingSize]
		if buf[0] == 's' {
			for left := streamMiB << 20; left > 0; {
				n, err := c.Read(buf)
				if err != nil {
					return err
				}
				left -= n
			}
			answer = buf[:1]
		}
		if _, err := c.Write(answer); err != nil {
			return err
		}
	}
}
