package command_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"rbd/cmd/internal/command"
)

func app(action cli.ActionFunc) *cli.App {
	return &cli.App{Name: "rbd-x", Commands: []*cli.Command{{
		Name:   "do",
		Action: action,
		Flags:  append(command.OutputFlags(), &cli.StringSliceFlag{Name: "e"}, &cli.StringFlag{Name: "n"}, &cli.IntFlag{Name: "i"}),
	}}}
}

// Each kind of outcome has its exit code and at most one line, on standard error.
func TestRun(t *testing.T) {
	failed := errors.New("connect to 127.0.0.1:1: refused\n\tbecause")
	full := errors.New("too many open files")
	for _, c := range []struct {
		args string
		err  error
		code int
		line string
	}{
		{"do", nil, 0, ""},
		{"do -v -o json", nil, 0, ""},
		{"do", failed, 1, "rbd-x: connect to 127.0.0.1:1: refused; because\n"},
		{"do", errors.Join(fmt.Errorf("listen: %w", full), full, errors.New("files")), 1, "rbd-x: listen: too many open files; files\n"},
		{"do", fmt.Errorf("wrapped: %w", command.Usagef("bad size")), 2, "rbd-x: wrapped: bad size; see 'rbd-x do --help'\n"},
		{"do", command.ConfigError("/a.toml", failed), 2, "rbd-x: configuration /a.toml: connect to 127.0.0.1:1: refused; because\n"},
		{"do file --n x", nil, 2, `flag "--n" comes after the argument "file"`},
		{"do file", nil, 2, `unexpected argument "file"`},
		{"do --nope", nil, 2, "-nope; see 'rbd-x do --help'\n"},
		{"do -i x", nil, 2, "invalid value"},
		{"what", nil, 2, `unknown command "what"; see 'rbd-x --help'`},
		{"--what", nil, 2, "what"},
		{"", nil, 2, "no command given"},
	} {
		var out, errs bytes.Buffer
		args := append([]string{"rbd-x"}, strings.Fields(c.args)...)
		code := command.Run(context.Background(), app(func(*cli.Context) error { return c.err }), args, &out, &errs)
		if code != c.code || !strings.Contains(errs.String(), c.line) || (c.line == "") != (errs.Len() == 0) || strings.Count(errs.String(), "\n") > 1 || out.Len() > 0 {
			t.Errorf("%q: exit %d, stdout %q, stderr %q; want %d, %q", c.args, code, out.String(), errs.String(), c.code, c.line)
		}
	}
}

// A value of a repeatable flag may contain commas: exports do.
func TestCommasStay(t *testing.T) {
	var got []string
	a := app(func(c *cli.Context) error { got = c.StringSlice("e"); return nil })
	if code := command.Run(context.Background(), a, []string{"rbd-x", "do", "-e", "a,ro", "-e", "b"}, &bytes.Buffer{}, &bytes.Buffer{}); code != 0 {
		t.Fatal(code)
	}
	if len(got) != 2 || got[0] != "a,ro" {
		t.Fatalf("%q", got)
	}
}

// Who ends the program is told by its last line that it was that.
func TestEndedBySignal(t *testing.T) {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("terminated signal received"))
	var errs bytes.Buffer
	waits := app(func(c *cli.Context) error { return fmt.Errorf("wait for udev: %w", c.Context.Err()) })
	code := command.Run(ctx, waits, []string{"rbd-x", "do"}, &bytes.Buffer{}, &errs)
	if want := "rbd-x: wait for udev: terminated signal received\n"; code != command.ExitFailed || errs.String() != want {
		t.Errorf("exit %d, %q, want %q", code, errs.String(), want)
	}
}

// Help is a result, not an error.
func TestHelp(t *testing.T) {
	var out, errs bytes.Buffer
	if code := command.Run(context.Background(), app(nil), []string{"rbd-x", "--help"}, &out, &errs); code != 0 || out.Len() == 0 || errs.Len() > 0 {
		t.Fatalf("exit %d, %q, %q", code, out.String(), errs.String())
	}
}
