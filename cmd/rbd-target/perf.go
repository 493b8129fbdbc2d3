package main

import (
	"context"
	"errors"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/urfave/cli/v2"

	"rbd/cmd/internal/command"
	"rbd/cmd/internal/fabric"
	"rbd/target"
	"rbd/verbs"
	"rbd/verbs/perf"
)

// perfListen is where perf listens that was told nothing.
const perfListen = "iwarp://127.0.0.1:" + perf.DefaultPort

func perfCommand() *cli.Command {
	return &cli.Command{
		Name:  "perf",
		Usage: "be the other end of 'rbd-initiator perf' until SIGINT, SIGTERM or SIGHUP",
		Description: "Whoever reaches a listener may read and write memory that is made for his test, and load the machine.\n" +
			"There are no exports and no host NQNs here, so addresses other than loopback need --allow-any-host.",
		Flags: append(command.OutputFlags(),
			&cli.StringSliceFlag{Name: "listen", Aliases: []string{"l"}, Usage: "`ADDR` to listen on: iwarp://HOST:PORT, rdma://HOST:PORT or HOST:PORT; port 0 takes a free one; repeatable", DefaultText: perfListen},
			&cli.BoolFlag{Name: "allow-any-host", Usage: "listen also where other hosts can connect"},
			&cli.IntFlag{Name: "max-tests", Value: perf.DefaultMaxTests, Usage: "`N` tests at a time; others are refused"},
		),
		Action: servePerf,
	}
}

func servePerf(c *cli.Context) error {
	asJSON, err := command.JSON(c)
	if err != nil {
		return err
	}
	addrs, err := parsePerf(c)
	if err != nil {
		return err
	}
	s := &settings{asJSON: asJSON, out: c.App.Writer, fabrics: fabric.New()}
	server := &perf.Server{Log: command.Logger(c), MaxTests: c.Int("max-tests")}
	var listeners []verbs.Listener
	defer func() {
		for _, l := range listeners {
			l.Close()
		}
	}()
	for _, addr := range addrs {
		l, err := s.listenOn(c.Context, addr)
		if err != nil {
			return err
		}
		listeners = append(listeners, l)
	}
	ctx, cancel := context.WithCancel(c.Context)
	defer cancel()
	served := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { served <- server.Serve(ctx, l) }()
	}
	var failed error
	if err := s.announce(listeners); err != nil {
		failed = err
		cancel()
	}
	for range listeners {
		err := <-served // the first that ends ends all
		cancel()
		if !errors.Is(err, context.Canceled) {
			failed = errors.Join(failed, err)
		}
	}
	_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping)
	return failed
}

// parsePerf reads the addresses, and refuses those that would be open by mistake.
func parsePerf(c *cli.Context) ([]verbs.Addr, error) {
	texts := c.StringSlice("listen")
	if len(texts) == 0 {
		texts = []string{perfListen}
	}
	if n := c.Int("max-tests"); n < 1 || n > 64 {
		return nil, command.Usagef("perf: --max-tests %d is not from 1 to 64", n)
	}
	addrs := make([]verbs.Addr, 0, len(texts))
	for _, text := range texts {
		addr, err := parseListen(text, perf.DefaultPort)
		if err != nil {
			return nil, command.Usagef("--listen: %v", err)
		}
		if policy := target.PolicyFor(addr, nil, c.Bool("allow-any-host")); !policy.AnyHost {
			return nil, command.Usagef("perf: %s can be reached from other hosts, and all of them could use it: add --allow-any-host if that is meant", addr)
		}
		addrs = append(addrs, addr)
	}
	return addrs, nil
}
