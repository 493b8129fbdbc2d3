package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"rbd/cmd/internal/command"
	"rbd/cmd/internal/registry"
	"rbd/cmd/internal/runtimedir"
	"rbd/nbd/kernel"
)

// disconnectTime bounds the end of one process: its answer, its flush, its shutdown.
const disconnectTime = 90 * time.Second

func disconnectFlags() []cli.Flag {
	return append(command.OutputFlags(),
		&cli.BoolFlag{Name: "force", Usage: "whoever uses the disk: what was not written is lost"},
	)
}

func disconnectCommand() *cli.Command {
	return &cli.Command{
		Name:  "disconnect",
		Usage: "detach a kernel device, or end the connection of a subsystem",
		Flags: append(disconnectFlags(),
			&cli.StringFlag{Name: "device", Aliases: []string{"d"}, Usage: "`DEVICE` to detach: /dev/nbdN, nbdN, or a link to it"},
			&cli.StringFlag{Name: "nqn", Aliases: []string{"n"}, Usage: "`NQN` of the subsystem"},
		),
		Action: func(c *cli.Context) error {
			device, nqn := c.String("device"), c.String("nqn")
			switch {
			case device == "" && nqn == "":
				return command.Usagef("disconnect: --device or --nqn is needed")
			case device != "" && nqn != "":
				return command.Usagef("disconnect: --device and --nqn exclude each other: give the one that says what is to end")
			case device != "":
				index, err := kernel.FindPath(device)
				if err != nil {
					return command.Usagef("disconnect: --device %v", err)
				}
				return disconnectDevice(c, index)
			}
			ended, err := disconnectMatching(c, func(name string) bool { return name == nqn })
			if err == nil && ended == 0 {
				return notConnected(nqn)
			}
			return err
		},
	}
}

// notConnected says where was looked for a subsystem.
func notConnected(nqn string) error {
	dir, err := runtimedir.Path()
	if err != nil {
		return fmt.Errorf("%s is not connected by this user: %w", nqn, err)
	}
	return fmt.Errorf("%s is not connected by this user, whose processes have the runtime folder %s; those of others are ended by them", nqn, dir)
}

func disconnectAllCommand() *cli.Command {
	return &cli.Command{
		Name:  "disconnect-all",
		Usage: "end all that this user has connected, and what was left behind",
		Flags: disconnectFlags(),
		Action: func(c *cli.Context) error {
			_, err := disconnectMatching(c, func(string) bool { return true })
			return err
		},
	}
}

// disconnectDevice detaches one device, by the process that serves it, or without
// one if that is dead.
func disconnectDevice(c *cli.Context, index int) error {
	device := kernel.Device{Index: index}.Path()
	list, err := entries(c.Context)
	if err != nil {
		return err
	}
	for _, e := range list {
		if e.Alive && hasDevice(e, device) {
			return ask(c.Context, e, registry.Disconnect{Device: device, Force: c.Bool("force")})
		}
	}
	d, err := kernel.Watch().Device(index)
	switch {
	case err != nil:
		return err
	case !d.Connected:
		return fmt.Errorf("%s is not connected", device)
	case !strings.HasPrefix(d.Backend, identifierPrefix):
		return fmt.Errorf("%s was not connected by rbd-initiator; run: nbd-client -d %s", device, device)
	}
	return detachLeftBehind(c, d, list)
}

func hasDevice(e registry.Entry, device string) bool {
	return slices.ContainsFunc(e.Disks, func(d registry.Disk) bool { return d.Device == device })
}

// disconnectMatching ends all processes and devices left behind whose subsystem is
// chosen, and says how many there were.
func disconnectMatching(c *cli.Context, chosen func(nqn string) bool) (n int, err error) {
	list, err := entries(c.Context)
	if err != nil {
		return 0, err
	}
	served := make(map[string]bool)
	var all error
	for _, e := range list {
		if !e.Alive {
			continue
		}
		for _, d := range e.Disks {
			served[d.Device] = true
		}
		if chosen(e.NQN) {
			n++
			all = errors.Join(all, ask(c.Context, e, registry.Disconnect{Force: c.Bool("force")}))
		}
	}
	left, err := leftBehind(served)
	if err != nil {
		return n, errors.Join(all, err)
	}
	for _, d := range left {
		nqn, _ := parseIdentifier(d.Backend)
		for _, e := range list {
			if !e.Alive && hasDevice(e, d.Path()) {
				nqn = e.NQN
			}
		}
		if chosen(nqn) {
			n++
			all = errors.Join(all, detachLeftBehind(c, d, list))
		}
	}
	return n, all
}

// ask has a process end a disk.
func ask(ctx context.Context, e registry.Entry, d registry.Disconnect) error {
	ctx, cancel := context.WithTimeout(ctx, disconnectTime)
	defer cancel()
	return e.Disconnect(ctx, d)
}

// detachLeftBehind ends a device without its process.
func detachLeftBehind(c *cli.Context, d kernel.Device, list []registry.Entry) error {
	host, err := kernel.Open(slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer host.Close()
	ctx, cancel := context.WithTimeout(c.Context, forceTime)
	defer cancel()
	if c.Bool("force") {
		err = host.ForceDetach(ctx, d)
	} else {
		err = host.Detach(ctx, d)
	}
	if err != nil {
		return remedy(err)
	}
	for _, e := range list {
		if !e.Alive && hasDevice(e, d.Path()) {
			e.Remove()
		}
	}
	return nil
}

// remedy says what helps against a device that is in use.
func remedy(err error) error {
	if errors.As(err, new(*kernel.BusyError)) {
		return fmt.Errorf("%w; end that first, or use --force, which loses what was not written", err)
	}
	return err
}
