package main

import (
	"bytes"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"rbd/cmd/internal/command"
)

// An address that is none is wrong usage, before anything is done.
func TestParseSockets(t *testing.T) {
	for _, listen := range []string{"10809", "127.0.0.1:99999", "127.0.0.1:nbd", "127.0.0.1:", "::1:10809", "127.0.0.1"} {
		var out, errs bytes.Buffer
		code := command.Run(t.Context(), newApp(), strings.Fields("rbd-initiator connect -a 127.0.0.1 -n nqn.2026-11.io.rbd:a --nbd-listen "+listen), &out, &errs)
		if want := `--nbd-listen "` + listen + `" is not HOST:PORT`; code != 2 || !strings.Contains(errs.String(), want) {
			t.Errorf("exit %d, %q; want %q", code, errs.String(), want)
		}
	}
}

// The port that was taken is told, and that a disk is there for everybody.
func TestListen(t *testing.T) {
	for _, c := range []struct {
		tcp  string
		warn bool
	}{{"127.0.0.1:0", false}, {"localhost:0", false}, {"0.0.0.0:0", true}, {":0", true}} {
		var log bytes.Buffer
		path := filepath.Join(t.TempDir(), "x.sock")
		listeners, err := listen(socketChoice{path: path, tcp: c.tcp}, deviceChoice{}, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil || len(listeners) != 2 || listeners[0].Addr().String() != path {
			t.Fatalf("%s: %v, %v", c.tcp, listeners, err)
		}
		_, port, _ := net.SplitHostPort(listeners[1].Addr().String())
		if !strings.Contains(log.String(), ":"+port) || strings.Contains(log.String(), "no authentication") != c.warn {
			t.Errorf("%s, port %s: %s", c.tcp, port, log.String())
		}
		for _, l := range listeners {
			l.Close()
		}
	}
}
