package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/urfave/cli/v2"

	"rbd/cmd/internal/command"
	"rbd/cmd/internal/registry"
	"rbd/initiator"
	"rbd/nbd"
)

// detachTime bounds each step of an orderly end: answering the clients, flushing,
// shutting the controller down.
const detachTime = 15 * time.Second

func connect(c *cli.Context) (err error) {
	p, err := parseConnect(c)
	if err != nil {
		return err
	}
	s := &session{log: p.opts.Logger, out: c.App.Writer, json: p.json, since: time.Now(), host: p.host, changed: make(chan struct{}, 1), gone: make(chan struct{}, 1), asked: make(chan disconnectRequest)}
	p.opts.OnNamespaceChange = s.namespaceChanged
	done, err := s.claim(c.Context, p.want, p.idempotent)
	if done || err != nil {
		return err
	}
	defer s.release()
	command.OutliveReaders()
	if p.want.device.wanted {
		if s.kernel, err = openKernel(p.opts, p.want.device, p.requestTimeout); err != nil {
			return err
		}
		defer s.kernel.host.Close()
		if err := protect(p.opts.Logger); err != nil {
			return err
		}
	}
	if s.listeners, err = listen(p.want.sockets, p.want.device, p.opts.Logger); err != nil {
		return err
	}
	defer func() {
		for _, l := range s.listeners {
			l.Close()
		}
	}()
	switch s.ctrl, err = connectWaiting(c.Context, p.endpoint, p.opts, p.wait); {
	case errors.Is(err, errEnded):
		return nil
	case err != nil:
		return err
	}
	return s.run(c.Context)
}

// session is a connected controller with its NBD server.
type session struct {
	ctrl      *initiator.Controller
	host      initiator.Host
	listeners []net.Listener // the first one is in the printed URIs
	server    *nbd.Server
	kernel    *kernelDisks // nil without kernel devices
	log       *slog.Logger
	out       io.Writer
	json      bool
	since     time.Time
	dir       string   // the runtime folder, empty if there is none
	lock      *os.File // of the subsystem's kernel devices

	changed chan struct{}          // namespaces are not as they were
	gone    chan struct{}          // a device was detached
	asked   chan disconnectRequest // by other processes

	mu    sync.Mutex
	disks []*kernelDisk // as they are attached and detached
}

// run serves the namespaces until ctx ends, the target is lost for good, or all
// kernel devices are detached.
func (s *session) run(ctx context.Context) error {
	server, err := s.newServer()
	if err != nil {
		return errors.Join(err, s.close())
	}
	s.server = server
	served := make(chan error, len(s.listeners))
	serving, stopServing := context.WithCancel(ctx)
	defer stopServing()
	for _, l := range s.listeners {
		go func() { served <- server.Serve(serving, l) }()
	}
	entry, err := s.begin(ctx, server)
	if err == nil {
		err = s.loop(ctx, entry, served)
	}
	_, _ = daemon.SdNotify(false, daemon.SdNotifyStopping)
	err = errors.Join(err, s.dropDevices())
	s.ctrl.StopReconnecting() // what waits for a target that is away ends now
	away := s.ctrl.Err()
	stop, cancel := context.WithTimeout(context.Background(), detachTime)
	defer cancel()
	stopServing()
	told := s.waitingFor(func() string { return fmt.Sprintf("for the target to answer %d requests", server.InFlight()) })
	err = errors.Join(err, server.Shutdown(stop))
	told()
	for range s.listeners {
		err = errors.Join(err, <-served)
	}
	switch {
	case away == nil:
		err = errors.Join(err, s.flush())
	case err == nil:
		err = fmt.Errorf("ended while the target is away, without a flush (if its host went down, writes since the last flush are lost): %s at %s: %w", s.ctrl.NQN(), s.ctrl.Addr(), away)
	}
	err = errors.Join(err, s.close())
	if entry != nil {
		err = errors.Join(err, entry.Close(err)) // who asked for the end is told by this
	}
	return err
}

// begin attaches the kernel devices, and tells everybody that the disks can be used.
func (s *session) begin(ctx context.Context, server *nbd.Server) (*registry.Server, error) {
	if s.kernel != nil {
		if err := s.attachDevices(ctx, server); err != nil {
			return nil, err
		}
	}
	if s.dir == "" {
		return nil, s.announce()
	}
	entry, err := registry.Serve(s.dir, s)
	if err != nil {
		return nil, err
	}
	return entry, s.announce()
}

// exports are the namespaces, by number.
func (s *session) exports() (exports []nbd.Export) {
	for _, ns := range s.ctrl.Namespaces() {
		exports = append(exports, nbd.Export{
			Name:        strconv.FormatUint(uint64(ns.NSID()), 10),
			Description: fmt.Sprintf("namespace %d of %s at %s", ns.NSID(), s.ctrl.NQN(), s.ctrl.Addr()),
			Device:      &nbdDevice{ctrl: s.ctrl, ns: ns},
		})
	}
	return exports
}

// newServer makes an NBD server of the exports.
func (s *session) newServer() (*nbd.Server, error) {
	exports := s.exports()
	if len(exports) == 0 {
		return nil, fmt.Errorf("%s at %s has no namespaces", s.ctrl.NQN(), s.ctrl.Addr())
	}
	return nbd.NewServer(exports, s.log)
}

// announce prints one line for each namespace, now that all can be used.
func (s *session) announce() error {
	if err := printDisks(s.out, s.json, s.Record()); err != nil {
		return err
	}
	_, _ = daemon.SdNotify(false, daemon.SdNotifyReady)
	return nil
}

// printDisks prints the line that tells that a disk can be used.
func printDisks(w io.Writer, asJSON bool, r registry.Record) error {
	for _, d := range r.Disks {
		if asJSON {
			line := struct {
				Device    string `json:"device,omitempty"`
				URI       string `json:"uri,omitempty"`
				Size      uint64 `json:"size"`
				BlockSize uint32 `json:"block_size"`
				NQN       string `json:"nqn"`
				NSID      uint32 `json:"nsid"`
			}{d.Device, d.URI, d.Size, d.BlockSize, r.NQN, d.NSID}
			if err := command.PrintJSON(w, line, true); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%d\n", d.Name(), d.Size, d.BlockSize, r.NQN, d.NSID); err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
	}
	return nil
}

// flush makes everything durable that clients have written.
func (s *session) flush() error {
	defer s.waitingFor(func() string { return "for the target to flush" })()
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
	defer s.waitingFor(func() string { return "for the target to shut the controller down" })()
	ctx, cancel := context.WithTimeout(context.Background(), detachTime)
	defer cancel()
	return s.ctrl.Close(ctx)
}
