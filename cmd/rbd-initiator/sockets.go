package main

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/urfave/cli/v2"

	"rbd/cmd/internal/command"
	"rbd/cmd/internal/runtimedir"
	"rbd/nbd"
)

// socketChoice is what --nbd-socket and --nbd-listen say; empty is not wanted.
type socketChoice struct {
	path string // absolute
	tcp  string // HOST:PORT
}

func parseSockets(c *cli.Context) (s socketChoice, err error) {
	if s.tcp = c.String("nbd-listen"); s.tcp != "" {
		_, port, err := net.SplitHostPort(s.tcp)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		if err != nil {
			return s, command.Usagef("connect: --nbd-listen %q is not HOST:PORT with a port from 0 to 65535", s.tcp)
		}
	}
	if s.path = c.String("nbd-socket"); s.path != "" {
		if s.path, err = filepath.Abs(s.path); err != nil {
			return s, fmt.Errorf("--nbd-socket: %w", err)
		}
	}
	return s, nil
}

// listen opens the sockets that were asked for, or one in the runtime folder.
func listen(want socketChoice, device deviceChoice, log *slog.Logger) (listeners []net.Listener, err error) {
	if want.tcp != "" {
		l, err := net.Listen("tcp", want.tcp)
		if err != nil {
			return nil, fmt.Errorf("--nbd-listen: %w", err)
		}
		listeners = append(listeners, l)
		log.Info("NBD is served on TCP", "addr", l.Addr().String())
		if a, ok := l.Addr().(*net.TCPAddr); ok && !a.IP.IsLoopback() {
			log.Warn("NBD has no authentication: whoever reaches this address has the disk; use a loopback address, or a firewall", "addr", l.Addr().String())
		}
	}
	if want == (socketChoice{}) && !device.wanted {
		dir, err := runtimedir.Make()
		if err != nil {
			return nil, fmt.Errorf("%w; name a socket with --nbd-socket", err)
		}
		want.path = socketPath(dir, os.Getpid())
	}
	if want.path == "" {
		return listeners, nil
	}
	l, err := nbd.ListenUnix(want.path)
	if err != nil {
		for _, open := range listeners {
			open.Close()
		}
		return nil, err
	}
	return append([]net.Listener{l}, listeners...), nil
}

// socketPath is the NBD socket of a process that was not told another.
func socketPath(dir string, pid int) string {
	return filepath.Join(dir, fmt.Sprintf("nbd-%d.sock", pid))
}
