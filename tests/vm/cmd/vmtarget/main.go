// Command vmtarget is a target whose namespaces come, go and change while it
// serves, as a scenario says on standard input. It is the package target with
// another front: what rbd-target can't be told at run time.
//
//	vmtarget ADDR QUEUES [COMMAND] < COMMANDS
//
// QUEUES is how many I/O queues a controller may have. The command of the command
// line is done before any host can connect. Each further one is a line, and is
// answered by one line: "ok", with a result, or "error" and why.
//
//	add NQN NSID SIZE          a namespace in memory, of SIZE bytes
//	file NQN NSID PATH         a file as namespace
//	slow NQN NSID SIZE TIME    as add, with each request taking TIME
//	remove NQN NSID
//	resize NQN NSID            look at the size of the file again
//	goroutines                 how many there are
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"rbd/target"
	"rbd/target/backend"
	"rbd/verbs"
	"rbd/verbs/ibv"
	"rbd/verbs/iwarp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "vmtarget:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	addr, err := verbs.ParseAddr(args[0], verbs.DefaultPort)
	if err != nil {
		return err
	}
	queues, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	t, err := target.New(target.Config{IOQueues: queues, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	if len(args) > 2 {
		if _, err := command(ctx, t, args[2:]); err != nil {
			return err
		}
	}
	var provider verbs.Provider = iwarp.New()
	if addr.Fabric == ibv.Name {
		provider = ibv.New()
	}
	l, err := provider.Listen(ctx, addr)
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- t.Serve(ctx, l, target.AccessPolicy{AnyHost: true}) }()
	fmt.Fprintf(out, "listening %s\n", l.Addr())
	go func() {
		for lines := bufio.NewScanner(in); lines.Scan(); {
			if result, err := command(ctx, t, strings.Fields(lines.Text())); err != nil {
				fmt.Fprintln(out, "error", err)
			} else {
				fmt.Fprintln(out, "ok", result)
			}
		}
	}()
	<-ctx.Done()
	<-served // the context's error, as it was to end
	end, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return t.Shutdown(end)
}

// command does what one line says, and returns the result.
func command(ctx context.Context, t *target.Target, words []string) (string, error) {
	if len(words) == 1 && words[0] == "goroutines" {
		return strconv.Itoa(runtime.NumGoroutine()), nil
	}
	if len(words) < 3 {
		return "", fmt.Errorf("command %q has too few words", words)
	}
	nqn := words[1]
	nsid, err := strconv.ParseUint(words[2], 10, 32)
	if err != nil {
		return "", err
	}
	switch words[0] {
	case "add", "file", "slow":
		b, err := open(words[0], words[3:])
		if err != nil {
			return "", err
		}
		info, err := t.AddNamespace(target.Export{NQN: nqn, NSID: uint32(nsid), Backend: b})
		return strconv.FormatInt(info.Size, 10), err
	case "remove":
		return "", t.RemoveNamespace(ctx, nqn, uint32(nsid))
	case "resize":
		size, err := t.Resize(nqn, uint32(nsid))
		return strconv.FormatInt(size, 10), err
	}
	return "", fmt.Errorf("unknown command %q", words[0])
}

// open makes the backend of a namespace.
func open(kind string, args []string) (backend.Backend, error) {
	want := 1
	if kind == "slow" {
		want = 2
	}
	if len(args) != want {
		return nil, fmt.Errorf("%s takes %d arguments after the namespace", kind, want)
	}
	if kind == "file" {
		return backend.OpenFile(args[0], backend.FileOptions{})
	}
	size, err := strconv.ParseInt(args[0], 10, 64)
	if err != nil {
		return nil, err
	}
	b, err := backend.NewRAM(size, 512)
	if err != nil || kind == "add" {
		return b, err
	}
	delay, err := time.ParseDuration(args[1])
	if err != nil {
		return nil, err
	}
	return backend.Delay(b, backend.Delays{backend.OpRead: delay, backend.OpWrite: delay}), nil
}
