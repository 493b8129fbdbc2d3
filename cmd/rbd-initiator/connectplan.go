package main

import (
	"time"

	"github.com/urfave/cli/v2"

	"rbd/cmd/internal/command"
	"rbd/initiator"
)

func connectCommand() *cli.Command {
	return &cli.Command{
		Name:  "connect",
		Usage: "make the namespaces of a subsystem local disks until SIGINT, SIGTERM or SIGHUP",
		Flags: append(controllerFlags(),
			&cli.StringFlag{Name: "nbd-socket", Usage: "serve NBD on the Unix socket `PATH`"},
			&cli.StringFlag{Name: "nbd-listen", Usage: "serve NBD on the TCP address `HOST:PORT`; port 0 takes a free one"},
			&cli.StringFlag{Name: "nbd-device", Usage: "attach to a kernel `DEVICE`: auto (a free one for each namespace) or /dev/nbdN"},
			&cli.IntFlag{Name: "nbd-timeout", Value: 30, Usage: "`SECONDS` until the kernel sends a request to its device again that was not answered"},
			&cli.BoolFlag{Name: "idempotent", Usage: "a disk that is connected already, from the same address, is no error"},
			&cli.IntFlag{Name: "wait", Usage: "`SECONDS` to keep trying until the target can be reached for the first time; -1 for ever"},
			&cli.StringFlag{Name: "config", Usage: "`FILE` (TOML) with options that the command line does not have"},
			&cli.IntFlag{Name: "ctrl-loss-tmo", Aliases: []string{"l"}, Value: 600, Usage: "`SECONDS` that requests wait when the target is lost, until they fail; 0 ends the program then, -1 waits for ever"},
			&cli.IntFlag{Name: "reconnect-delay", Aliases: []string{"c"}, Value: 10, Usage: "`SECONDS` between two tries to reconnect"},
		),
		Action: connect,
	}
}

// connectPlan is what the command line and the configuration ask connect for.
type connectPlan struct {
	endpoint
	want           wanted
	opts           initiator.Options
	idempotent     bool
	wait           time.Duration // for the target, negative for ever
	requestTimeout time.Duration // of kernel devices
	json           bool
}

// parseConnect reads all options, so that wrong usage is told before anything is done.
func parseConnect(c *cli.Context) (p connectPlan, err error) {
	if err := readConfig(c); err != nil {
		return p, err
	}
	if p.json, err = command.JSON(c); err != nil {
		return p, err
	}
	if p.endpoint, err = parseEndpoint(c); err != nil {
		return p, err
	}
	if p.opts, err = parseOptions(c, p.host); err != nil {
		return p, err
	}
	if err := parseReconnect(c, &p.opts); err != nil {
		return p, err
	}
	if p.wait, err = parseWait(c); err != nil {
		return p, err
	}
	if p.requestTimeout, err = parseRequestTimeout(c); err != nil {
		return p, err
	}
	p.idempotent = c.Bool("idempotent")
	p.want = wanted{nqn: p.opts.SubNQN, addr: p.addr, hostNQN: c.String("hostnqn")}
	if p.want.sockets, err = parseSockets(c); err != nil {
		return p, err
	}
	if p.want.device, err = parseDevice(c.String("nbd-device")); err == nil && p.want.device.wanted {
		err = checkAdmin()
	}
	return p, err
}
