package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"rbd/cmd/internal/command"
	"rbd/cmd/internal/registry"
	"rbd/cmd/internal/runtimedir"
	"rbd/cmd/internal/size"
	"rbd/nbd/kernel"
)

func listCommand() *cli.Command {
	return &cli.Command{
		Name:   "list",
		Usage:  "list the disks that this user has connected, and all kernel devices",
		Flags:  command.OutputFlags(),
		Action: list,
	}
}

// States of devices of which no process in our runtime folder knows.
const (
	stateLeftBehind = "left behind" // its process is dead
	stateElsewhere  = "served"      // by a process with another runtime folder
	stateUnknown    = "not known"   // to this user
)

// listed is one line of the list.
type listed struct {
	Disk      string     `json:"disk"` // device or URI
	Size      uint64     `json:"size"`
	BlockSize uint32     `json:"block_size"`
	NQN       string     `json:"nqn"`
	NSID      uint32     `json:"nsid"`
	UUID      string     `json:"uuid,omitempty"`
	Address   string     `json:"address,omitempty"`
	HostNQN   string     `json:"hostnqn,omitempty"`
	Listen    []string   `json:"listen,omitempty"` // where its process serves NBD
	State     string     `json:"state"`
	Since     *time.Time `json:"since,omitempty"`
	PID       int        `json:"pid,omitempty"` // 0: its process is dead
}

func list(c *cli.Context) error {
	asJSON, err := command.JSON(c)
	if err != nil {
		return err
	}
	all, err := connected(c.Context)
	if err != nil {
		return err
	}
	if asJSON {
		return command.PrintJSON(c.App.Writer, all, false)
	}
	return printList(c.App.Writer, all)
}

// connected asks all processes, and looks for the devices of those that are dead.
func connected(ctx context.Context) ([]listed, error) {
	all := []listed{}
	dead := make(map[string]registry.Entry) // by device
	served := make(map[string]bool)
	entries, err := entries(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		for _, d := range e.Disks {
			if !e.Alive {
				dead[d.Device] = e
				continue
			}
			served[d.Device] = true
			all = append(all, listed{
				Disk: d.Name(), Size: d.Size, BlockSize: d.BlockSize, NQN: e.NQN, NSID: d.NSID, UUID: d.UUID,
				Address: e.Address, HostNQN: e.HostNQN, Listen: e.Listen, State: e.State, Since: &e.Since, PID: e.PID,
			})
		}
	}
	left, err := leftBehind(served)
	if err != nil {
		return nil, err
	}
	for _, d := range left {
		l := listed{Disk: d.Path(), Size: d.Size, BlockSize: d.BlockSize, State: stateLeftBehind, NQN: d.Backend}
		if e, ok := dead[d.Path()]; ok {
			l.NQN, l.Address, l.HostNQN, l.Since = e.NQN, e.Address, e.HostNQN, &e.Since
			for _, x := range e.Disks {
				if x.Device == l.Disk {
					l.NSID, l.UUID = x.NSID, x.UUID
				}
			}
		} else {
			l.NQN, l.NSID = parseIdentifier(d.Backend)
			l.State = stateOf(l.NQN)
		}
		all = append(all, l)
	}
	return all, nil
}

// stateOf finds out whether somebody has the kernel devices of a subsystem.
func stateOf(escapedNQN string) string {
	switch locked, err := registry.Locked(deviceLocks, escapedNQN); {
	case locked:
		return stateElsewhere
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return stateUnknown
	}
	return stateLeftBehind
}

// entries are those of the runtime folder. Where there is none, nothing is
// connected. What dead processes left there is removed once no device is left.
func entries(ctx context.Context) ([]registry.Entry, error) {
	dir, err := runtimedir.Path()
	if err != nil {
		return nil, nil
	}
	list, err := registry.Entries(ctx, dir)
	if err != nil {
		return nil, err
	}
	served := make(map[string]bool)
	for _, e := range list {
		for _, d := range e.Disks {
			served[d.Device] = served[d.Device] || e.Alive
		}
	}
	left, err := leftBehind(served)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list, func(e registry.Entry) bool {
		stale := !e.Alive && !slices.ContainsFunc(left, func(d kernel.Device) bool { return hasDevice(e, d.Path()) })
		if stale {
			e.Remove()
			os.Remove(socketPath(dir, e.PID))
		}
		return stale
	}), nil
}

// leftBehind are our kernel devices that no process serves.
func leftBehind(served map[string]bool) (left []kernel.Device, err error) {
	devices, err := kernel.Watch().Devices()
	for _, d := range devices {
		if d.Connected && strings.HasPrefix(d.Backend, identifierPrefix) && !served[d.Path()] {
			left = append(left, d)
		}
	}
	return left, err
}

// parseIdentifier takes an identifier apart again; escapes stay.
func parseIdentifier(id string) (nqn string, nsid uint32) {
	nqn = strings.TrimPrefix(id, identifierPrefix)
	if i := strings.LastIndexByte(nqn, '-'); i >= 0 {
		if _, err := fmt.Sscanf(nqn[i+1:], "%d", &nsid); err == nil {
			nqn = nqn[:i]
		}
	}
	return nqn, nsid
}

func printList(w io.Writer, all []listed) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "DISK\tSIZE\tSTATE\tSINCE\tTARGET\tNQN\tNSID\tPID")
	for _, l := range all {
		since, pid, target := "-", "-", "-"
		if l.Since != nil {
			since = l.Since.Local().Format("2006-01-02 15:04:05")
		}
		if l.PID != 0 {
			pid = fmt.Sprint(l.PID)
		}
		if l.Address != "" {
			target = l.Address
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", l.Disk, size.String(int64(l.Size)), l.State, since, target, l.NQN, l.NSID, pid)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}
