package main

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"rbd/cmd/internal/command"
	"rbd/verbs"
)

// Protects users from command lines that mean something else than they look like, or
// that serve nobody.
func TestServeUsage(t *testing.T) {
	const id = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--allow-host", id + "," + id}, "comma"},
		{[]string{"--allow-host", id + " " + id}, "--allow-host: host nqn"}, // blanks at the ends are cut off
		{[]string{"--allow-host", id[:len(id)-1]}, "8-4-4-4-12"},
		{[]string{"-l", ""}, "is empty; :4420 is"},
		{[]string{"-l", "iwarp://"}, "is empty"},
		{[]string{"-l", "127.0.0.1:0?crc=yes"}, "expected on or off"},
		{[]string{"-l", "rdma://127.0.0.1:0?tos=256"}, "tos"},
		{[]string{"-l", "foo://127.0.0.1"}, "neither iwarp nor rdma"},
		{[]string{"-e", "ram:1M,nqn=nqn.2026-11.org.example:a b"}, "nqn"},
		{[]string{"-e", "a\x01b"}, "nqn= is needed"},
	} {
		var out, errs bytes.Buffer
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // of one that is not refused
		code := command.Run(ctx, newApp(), append([]string{"rbd-target", "serve", "-e", "ram:1M"}, c.args...), &out, &errs)
		cancel()
		if code != command.ExitUsage || out.Len() > 0 || !strings.Contains(errs.String(), c.want) || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%q: exit %d, %q, %q; want %q", c.args, code, out.String(), errs.String(), c.want)
		}
	}
}

// Protects users from a target that starts and refuses everybody.
func TestWarnOfIdle(t *testing.T) {
	for _, c := range []struct {
		listen string
		hosts  []string
		any    bool
		warn   bool
	}{
		{listen: ":4420", warn: true},
		{listen: "rdma://192.0.2.1", warn: true},
		{listen: ":4420", hosts: []string{"nqn.2026-11.org.example:a"}},
		{listen: ":4420", any: true},
		{listen: "127.0.0.1"},
	} {
		addr, err := parseListen(c.listen, verbs.DefaultPort)
		if err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		s := &settings{listen: []verbs.Addr{addr}, hosts: c.hosts, anyHost: c.any, log: slog.New(slog.NewTextHandler(&log, nil))}
		s.warnOfIdle()
		if got := strings.Contains(log.String(), "no host may use the exports here"); got != c.warn {
			t.Errorf("%+v: %q", c, log.String())
		}
	}
}
