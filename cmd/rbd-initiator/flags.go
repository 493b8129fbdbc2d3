package main

import (
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"rbd/cmd/internal/command"
	"rbd/cmd/internal/fabric"
	"rbd/cmd/internal/nqn"
	"rbd/initiator"
	"rbd/verbs"
	"rbd/wire"
)

// addressFlags say where the target is and who asks; names and letters are those
// of nvme-cli.
func addressFlags() []cli.Flag {
	return append(command.OutputFlags(),
		&cli.StringFlag{Name: "traddr", Aliases: []string{"a"}, Usage: "`HOST` of the target: HOST, iwarp://HOST or rdma://HOST"},
		&cli.StringFlag{Name: "trsvcid", Aliases: []string{"s"}, Value: verbs.DefaultPort, Usage: "`PORT` of the target"},
		&cli.StringFlag{Name: "transport", Aliases: []string{"t"}, Value: "rdma", Usage: "always rdma; accepted because nvme-cli has it"},
		&cli.StringFlag{Name: "hostnqn", Aliases: []string{"q"}, Usage: "`NQN` of this host; else from /etc/nvme/hostnqn, else made of --hostid, else made and kept"},
		&cli.StringFlag{Name: "hostid", Aliases: []string{"I"}, Usage: "`UUID` of this host; else from /etc/nvme/hostid, else made of --hostnqn, else made and kept"},
	)
}

// controllerFlags say how to connect to a subsystem.
func controllerFlags() []cli.Flag {
	return append(addressFlags(),
		&cli.StringFlag{Name: "nqn", Aliases: []string{"n"}, Usage: "`NQN` of the subsystem"},
		&cli.IntFlag{Name: "nr-io-queues", Aliases: []string{"i"}, Usage: "number of I/O `QUEUES`", DefaultText: "number of CPUs, at most 4"},
		&cli.IntFlag{Name: "queue-size", Aliases: []string{"Q"}, Value: 128, Usage: "`DEPTH` of an I/O queue"},
		&cli.IntFlag{Name: "keep-alive-tmo", Aliases: []string{"k"}, Value: 5, Usage: "keep-alive timeout in `SECONDS`; 0 turns keep-alive off"},
	)
}

// endpoint is where the target is and who asks.
type endpoint struct {
	addr     verbs.Addr
	provider verbs.Provider
	host     initiator.Host
}

func parseEndpoint(c *cli.Context) (e endpoint, err error) {
	if err := command.Required(c, "traddr"); err != nil {
		return e, err
	}
	if t := c.String("transport"); t != "rdma" {
		return e, command.Usagef("%s: transport %q is not supported, only rdma", c.Command.Name, t)
	}
	if e.addr, err = parseTarget(c, c.String("traddr")); err != nil {
		return e, err
	}
	if e.host, err = parseHost(c); err != nil {
		return e, err
	}
	e.provider, err = fabric.New().Provider(e.addr)
	return e, err
}

// parseTarget combines an address of --traddr with --trsvcid. Both may have a port, but
// not two different ones.
func parseTarget(c *cli.Context, text string) (verbs.Addr, error) {
	addr, err := verbs.ParseAddr(text, c.String("trsvcid"))
	if err != nil {
		return addr, command.Usagef("%v", err)
	}
	port, err := strconv.ParseUint(c.String("trsvcid"), 10, 16)
	if err != nil {
		return addr, command.Usagef("%s: --trsvcid %q is not a port from 0 to 65535", c.Command.Name, c.String("trsvcid"))
	}
	if c.IsSet("trsvcid") && addr.Port != strconv.FormatUint(port, 10) {
		return addr, command.Usagef("%s: --traddr %s has port %s, and --trsvcid says %d: give one", c.Command.Name, text, addr.Port, port)
	}
	return addr, nil
}

// parseHost takes each part of the identity from the command line, else from the files.
func parseHost(c *cli.Context) (initiator.Host, error) {
	name, id := c.String("hostnqn"), c.String("hostid")
	dirs, err := initiator.DefaultHostDirs()
	if name == "" && id == "" {
		if err != nil {
			return initiator.Host{}, err
		}
		return initiator.LoadHost(dirs...)
	}
	if name != "" {
		if err := nqn.Check(name); err != nil {
			return initiator.Host{}, command.Usagef("host NQN: %v", err)
		}
	}
	// Nothing is kept, so a user without a folder does not matter.
	if _, err := initiator.MakeHost(name, id); err != nil {
		return initiator.Host{}, command.Usagef("%v", err)
	}
	return initiator.FindHost(name, id, dirs...)
}

// parseOptions reads controllerFlags apart from the endpoint. A controller that is
// lost stays so, unless parseReconnect says otherwise.
func parseOptions(c *cli.Context, host initiator.Host) (initiator.Options, error) {
	o := initiator.Options{NoReconnect: true, SubNQN: c.String("nqn"), Host: host, Queues: c.Int("nr-io-queues"), QueueSize: c.Int("queue-size"), Logger: command.Logger(c)}
	if err := command.Required(c, "nqn"); err != nil {
		return o, err
	}
	if err := wire.ValidNQN(o.SubNQN); err != nil {
		return o, command.Usagef("%s: subsystem NQN %q: %v", c.Command.Name, o.SubNQN, err)
	}
	if c.IsSet("nr-io-queues") && (o.Queues < 1 || o.Queues > 128) {
		return o, command.Usagef("%s: number of I/O queues %d is not from 1 to 128", c.Command.Name, o.Queues)
	}
	if o.QueueSize < 2 || o.QueueSize > 1024 {
		return o, command.Usagef("%s: queue size %d is not from 2 to 1024", c.Command.Name, o.QueueSize)
	}
	switch k := c.Int("keep-alive-tmo"); {
	case k < 0 || k > 86400:
		return o, command.Usagef("%s: keep-alive timeout %d is not from 0 to 86400 seconds", c.Command.Name, k)
	case k == 0:
		o.KeepAlive = -1
	default:
		o.KeepAlive = time.Duration(k) * time.Second
	}
	return o, nil
}

// parseReconnect reads what is to be done when the target is lost.
func parseReconnect(c *cli.Context, o *initiator.Options) error {
	o.NoReconnect = false
	switch l := c.Int("ctrl-loss-tmo"); {
	case l < -1 || l > maxSeconds:
		return command.Usagef("connect: --ctrl-loss-tmo %d is not from -1 to %d seconds", l, maxSeconds)
	case l == 0:
		o.NoReconnect = true
	default:
		o.LossTimeout = time.Duration(l) * time.Second // -1: for ever
	}
	d := c.Int("reconnect-delay")
	if d < 1 || d > 86400 {
		return command.Usagef("connect: --reconnect-delay %d is not from 1 to 86400 seconds", d)
	}
	o.ReconnectDelay = time.Duration(d) * time.Second
	return nil
}

// maxSeconds bounds the loss time: a hundred years.
const maxSeconds = 100 * 365 * 86400
