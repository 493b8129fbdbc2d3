package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/urfave/cli/v2"

	"rbd/cmd/internal/command"
	"rbd/cmd/internal/runtimedir"
	"rbd/initiator"
	"rbd/nbd"
)

// detachTime bounds each step of an orderly end: answering the clients, flushing,
// shutting the controller down.
const detachTime = 15 * time.Second

func connectCommand() *cli.Command {
	return &cli.Command{
		Name:  "connect",
		Usage: "make the namespaces of a subsystem local disks until SIGINT or SIGTERM",
		Flags: append(controllerFlags(),
			&cli.StringFlag{Name: "nbd-socket", Usage: "serve NBD on the Unix socket `PATH`"},
			&cli.StringFlag{Name: "nbd-listen", Usage: "serve NBD on the TCP address `HOST:PORT`; port 0 takes a free one"},
			&cli.StringFlag{Name: "nbd-device", Usage: "attach to a kernel `DEVICE`: auto or /dev/nbdN (not supported yet)"},
			&cli.IntFlag{Name: "ctrl-loss-tmo", Aliases: []string{"l"}, Value: 600, Usage: "`SECONDS` that requests wait when the target is lost, until they fail; 0 ends the program then, -1 waits for ever"},
			&cli.IntFlag{Name: "reconnect-delay", Aliases: []string{"c"}, Value: 10, Usage: "`SECONDS` between two tries to reconnect"},
		),
		Action: connect,
	}
}

func connect(c *cli.Context) error {
	asJSON, err := command.JSON(c)
	if err != nil {
		return err
	}
	e, err := parseEndpoint(c)
	if err != nil {
		return err
	}
	opts, err := parseOptions(c, e.host)
	if err != nil {
		return err
	}
	if err := parseReconnect(c, &opts); err != nil {
		return err
	}
	if c.IsSet("nbd-device") {
		return errors.New("--nbd-device: kernel devices are not supported yet; use --nbd-socket or --nbd-listen")
	}
	listeners, err := listen(c)
	if err != nil {
		return err
	}
	defer func() {
		for _, l := range listeners {
			l.Close()
		}
	}()
	opts.OnNamespaceChange = func(n initiator.NamespaceChange) {
		opts.Logger.Info("namespace changed", "nsid", n.Namespace.NSID(), "change", n.Kind, "size", n.Namespace.Size())
	}
	ctrl, err := initiator.Connect(c.Context, e.provider, e.addr, opts)
	if err != nil {
		return err
	}
	s := &session{ctrl: ctrl, listeners: listeners, log: opts.Logger, out: c.App.Writer, json: asJSON}
	return s.run(c.Context)
}

// listen opens the sockets that were asked for, or one in the runtime folder.
func listen(c *cli.Context) (listeners []net.Listener, err error) {
	if addr := c.String("nbd-listen"); addr != "" {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, fmt.Errorf("--nbd-listen: %w", err)
		}
		listeners = append(listeners, l)
	}
	path := c.String("nbd-socket")
	if path == "" && len(listeners) == 0 {
		dir, err := runtimedir.Make()
		if err != nil {
			return nil, err
		}
		path = filepath.Join(dir, fmt.Sprintf("nbd-%d.sock", os.Getpid()))
	}
	if path == "" {
		return listeners, nil
	}
	if path, err = filepath.Abs(path); err != nil {
		return listeners, fmt.Errorf("--nbd-socket: %w", err)
	}
	l, err := nbd.ListenUnix(path)
	if err != nil {
		for _, open := range listeners {
			open.Close()
		}
		return nil, err
	}
	return append([]net.Listener{l}, listeners...), nil
}

// session is a connected controller with its NBD server.
type session struct {
	ctrl      *initiator.Controller
	listeners []net.Listener // the first one is in the printed URIs
	log       *slog.Logger
	out       io.Writer
	json      bool
}

// run serves the namespaces until ctx ends or the target is lost.
func (s *session) run(ctx context.Context) error {
	server, err := s.server()
	if err != nil {
		return errors.Join(err, s.close())
	}
	served := make(chan error, len(s.listeners))
	for _, l := range s.listeners {
		go func() { served <- server.Serve(ctx, l) }()
	}
	err = s.announce()
	if err == nil {
		select {
		case <-ctx.Done():
		case <-s.ctrl.Lost():
			err = fmt.Errorf("%s at %s: %w", s.ctrl.NQN(), s.ctrl.Addr(), s.ctrl.Err())
		case err = <-served:
			served <- nil // one is counted below
		}
	}
	_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping)
	s.ctrl.StopReconnecting() // what waits for a target that is away ends now
	away := s.ctrl.Err()
	stop, cancel := context.WithTimeout(context.Background(), detachTime)
	defer cancel()
	err = errors.Join(err, server.Shutdown(stop))
	for range s.listeners {
		err = errors.Join(err, <-served)
	}
	switch {
	case away == nil:
		err = errors.Join(err, s.flush())
	case err == nil:
		err = fmt.Errorf("ended while the target is away, without a flush: %s at %s: %w", s.ctrl.NQN(), s.ctrl.Addr(), away)
	}
	return errors.Join(err, s.close())
}

// server makes an NBD server whose exports are the namespaces, by number.
func (s *session) server() (*nbd.Server, error) {
	var exports []nbd.Export
	for _, ns := range s.ctrl.Namespaces() {
		exports = append(exports, nbd.Export{
			Name:        strconv.FormatUint(uint64(ns.NSID()), 10),
			Description: fmt.Sprintf("namespace %d of %s at %s", ns.NSID(), s.ctrl.NQN(), s.ctrl.Addr()),
			Device:      &nbdDevice{ctrl: s.ctrl, ns: ns},
		})
	}
	if len(exports) == 0 {
		return nil, fmt.Errorf("%s at %s has no namespaces", s.ctrl.NQN(), s.ctrl.Addr())
	}
	return nbd.NewServer(exports, s.log)
}

// announce prints one line for each namespace, now that all can be used.
func (s *session) announce() error {
	for _, ns := range s.ctrl.Namespaces() {
		info := ns.Info()
		uri := nbd.URI(s.listeners[0].Addr(), strconv.FormatUint(uint64(info.NSID), 10))
		if s.json {
			line := struct {
				URI       string `json:"uri"`
				Size      uint64 `json:"size"`
				BlockSize uint32 `json:"block_size"`
				NQN       string `json:"nqn"`
				NSID      uint32 `json:"nsid"`
			}{uri, info.Size, info.BlockSize, s.ctrl.NQN(), info.NSID}
			if err := command.PrintJSON(s.out, line, true); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprintf(s.out, "%s\t%d\t%d\t%s\t%d\n", uri, info.Size, info.BlockSize, s.ctrl.NQN(), info.NSID); err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
	}
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	return nil
}

// flush makes everything durable that clients have written.
func (s *session) flush() error {
	ctx, cancel := context.WithTimeout(context.Background(), detachTime)
	defer cancel()
	var all error
	for _, ns := range s.ctrl.Namespaces() {
		if info := ns.Info(); info.ReadOnly || !info.VolatileWriteCache {
			continue
		}
		if err := ns.Flush(ctx); err != nil {
			all = errors.Join(all, fmt.Errorf("flush namespace %d of %s: %w", ns.NSID(), s.ctrl.NQN(), err))
		}
	}
	return all
}

func (s *session) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), detachTime)
	defer cancel()
	return s.ctrl.Close(ctx)
}
