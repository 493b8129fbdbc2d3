package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/urfave/cli/v2"

	"rbd/cmd/internal/command"
	"rbd/cmd/internal/fabric"
	"rbd/cmd/internal/nqn"
	"rbd/cmd/internal/size"
	"rbd/target"
	"rbd/target/backend"
	"rbd/verbs"
)

// shutdownTime bounds how long the target finishes what it has accepted.
const shutdownTime = 20 * time.Second

// defaultListen is where a target listens that was told nothing.
const defaultListen = "iwarp://127.0.0.1:" + verbs.DefaultPort

func serveCommand() *cli.Command {
	return &cli.Command{
		Name:  "serve",
		Usage: "serve exports until SIGINT, SIGTERM or SIGHUP",
		Description: "EXPORT is PATH[,nqn=NQN][,nsid=N][,ro][,size=SIZE][,backend=file|ram|null][,block-size=512|4096][,uuid=UUID]\n" +
			"or ram:SIZE or null:SIZE in place of PATH. With backend=ram or null, PATH is no more than the name in the default NQN,\n" +
			"and size= is needed. A comma in a path is written twice.",
		Flags: append(command.OutputFlags(),
			&cli.StringSliceFlag{Name: "listen", Aliases: []string{"l"}, Usage: "`ADDR` to listen on: iwarp://HOST:PORT, rdma://HOST:PORT or HOST:PORT, which is iwarp; port 0 takes a free one; repeatable", DefaultText: defaultListen},
			&cli.StringSliceFlag{Name: "export", Aliases: []string{"e"}, Usage: "`EXPORT` to serve; repeatable"},
			&cli.StringSliceFlag{Name: "allow-host", Usage: "`NQN` of a host that may use the exports from elsewhere than this machine; repeatable"},
			&cli.BoolFlag{Name: "allow-any-host", Usage: "let every host that reaches a listener use the exports"},
			&cli.StringFlag{Name: "config", Usage: "read more settings from the TOML `FILE`"},
		),
		Action: serve,
	}
}

// settings are the command line and the configuration file together.
type settings struct {
	listen   []verbs.Addr
	exports  []exportSpec
	hosts    []string
	anyHost  bool
	asJSON   bool
	log      *slog.Logger
	out      io.Writer
	fabrics  *fabric.Fabrics
	backends []backend.Backend
	newFiles []newFile
}

func parseSettings(c *cli.Context) (*settings, error) {
	s := &settings{anyHost: c.Bool("allow-any-host"), log: command.Logger(c), out: c.App.Writer, fabrics: fabric.New()}
	var err error
	if s.asJSON, err = command.JSON(c); err != nil {
		return nil, err
	}
	if err := s.addHosts(c.StringSlice("allow-host")); err != nil {
		return nil, command.Usagef("--allow-host: %v", err)
	}
	if err := s.addListen(c.StringSlice("listen")); err != nil {
		return nil, command.Usagef("--listen: %v", err)
	}
	for _, text := range c.StringSlice("export") {
		e, err := parseExport(text)
		if err != nil {
			return nil, err
		}
		s.exports = append(s.exports, e)
	}
	if path := c.String("config"); path != "" {
		if err := s.addConfig(path); err != nil {
			return nil, err
		}
	}
	if len(s.exports) == 0 {
		return nil, command.Usagef("serve: no export: give --export or a configuration file with some")
	}
	if len(s.listen) == 0 {
		if err := s.addListen([]string{defaultListen}); err != nil {
			return nil, err
		}
	}
	return s, assignNSIDs(s.exports)
}

func (s *settings) addHosts(nqns []string) error {
	for _, host := range nqns {
		if err := nqn.Check(host); err != nil {
			return fmt.Errorf("host nqn: %w", err)
		}
	}
	s.hosts = append(s.hosts, nqns...)
	return nil
}

func (s *settings) addListen(texts []string) error {
	for _, text := range texts {
		addr, err := parseListen(text, verbs.DefaultPort)
		if err == nil {
			_, err = s.fabrics.Provider(addr)
		}
		if err != nil {
			return err
		}
		s.listen = append(s.listen, addr)
	}
	return nil
}

// parseListen reads an address to listen on. One that says nothing would be open to all
// networks, by a variable that is not set.
func parseListen(text, port string) (verbs.Addr, error) {
	addr, err := verbs.ParseAddr(text, port)
	if err == nil && addr.Host == "" && len(addr.Params) == 0 && !strings.Contains(strings.TrimPrefix(text, addr.Fabric+"://"), ":") {
		return addr, fmt.Errorf("address %q is empty; :%s is that port on all addresses", text, port)
	}
	return addr, err
}

// warnOfIdle tells of listeners that serve nobody.
func (s *settings) warnOfIdle() {
	for _, addr := range s.listen {
		if p := target.PolicyFor(addr, s.hosts, s.anyHost); !p.AnyHost && len(p.Hosts) == 0 {
			s.log.Warn("no host may use the exports here: add --allow-host NQN for each that is to, or --allow-any-host", "listen", addr.String())
		}
	}
}

func serve(c *cli.Context) error {
	s, err := parseSettings(c)
	if err != nil {
		return err
	}
	command.OutliveReaders()
	s.warnOfIdle()
	s.warnOfMemory("/proc/meminfo")
	t, err := target.New(target.Config{Log: s.log})
	if err != nil {
		return err
	}
	if err := s.addExports(t); err != nil {
		return errors.Join(err, s.removeNewFiles(), shutdown(t))
	}
	return s.run(c.Context, t)
}

// run listens, says so, and serves until ctx ends or a listener fails.
func (s *settings) run(ctx context.Context, t *target.Target) error {
	w := newWatcher(t, s.exports, s.backends, s.log)
	var listeners []verbs.Listener
	closeAll := func() {
		for _, l := range listeners {
			l.Close()
		}
	}
	for _, addr := range s.listen {
		l, err := s.listenOn(ctx, addr)
		if err != nil {
			closeAll()
			return errors.Join(err, s.removeNewFiles(), shutdown(t))
		}
		listeners = append(listeners, l)
	}
	serving, cancel := context.WithCancel(ctx)
	defer cancel()
	served := make(chan error, len(listeners))
	for i, l := range listeners {
		policy := target.PolicyFor(s.listen[i], s.hosts, s.anyHost)
		go func() { served <- t.Serve(serving, l, policy) }()
	}
	var watching sync.WaitGroup
	watching.Go(func() { w.run(serving) })
	err := s.announce(listeners)
	ended := 0
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-served:
			ended = 1
			if ctx.Err() != nil { // it was to end, and Serve has seen that first
				err = nil
			}
		}
	}
	_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping)
	cancel()
	for range len(listeners) - ended {
		if e := <-served; !errors.Is(e, context.Canceled) {
			err = errors.Join(err, e)
		}
	}
	closeAll()
	watching.Wait()
	return errors.Join(err, shutdown(t))
}

func (s *settings) listenOn(ctx context.Context, addr verbs.Addr) (verbs.Listener, error) {
	p, err := s.fabrics.Provider(addr)
	if err != nil {
		return nil, err
	}
	return p.Listen(ctx, addr)
}

// announce prints a line for each listener and each export, now that they serve.
func (s *settings) announce(listeners []verbs.Listener) error {
	for _, l := range listeners {
		if err := s.print(fmt.Sprintf("listening %s", l.Addr()), struct {
			Listening string `json:"listening"`
		}{l.Addr().String()}); err != nil {
			return err
		}
	}
	for i, e := range s.exports {
		n := s.backends[i].Size()
		if err := s.print(fmt.Sprintf("%s\t%d\t%s", e.NQN, e.NSID, size.String(n)), struct {
			NQN  string `json:"nqn"`
			NSID uint32 `json:"nsid"`
			Size int64  `json:"size"`
		}{e.NQN, e.NSID, n}); err != nil {
			return err
		}
	}
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	return nil
}

func (s *settings) print(line string, v any) error {
	if s.asJSON {
		return command.PrintJSON(s.out, v, true)
	}
	if _, err := fmt.Fprintln(s.out, line); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// shutdown lets the target finish what it has accepted and close its backends.
func shutdown(t *target.Target) error {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	return t.Shutdown(ctx)
}
