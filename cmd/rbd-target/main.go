// Command rbd-target exports files and disks over NVMe/RDMA.
package main

import (
	"github.com/urfave/cli/v2"

	"rbd/cmd/internal/command"
	"rbd/cmd/internal/fabric"
)

func main() {
	command.Main(newApp())
}

func newApp() *cli.App {
	return &cli.App{
		Name:  "rbd-target",
		Usage: "export files and disks over NVMe/RDMA",
		Commands: []*cli.Command{
			serveCommand(),
			perfCommand(),
			{
				Name:   "devices",
				Usage:  "list the fabrics and RDMA devices of this machine, and why one can't be used",
				Flags:  command.OutputFlags(),
				Action: devices,
			},
		},
	}
}

func devices(c *cli.Context) error {
	asJSON, err := command.JSON(c)
	if err != nil {
		return err
	}
	list := fabric.New().Status()
	if asJSON {
		return command.PrintJSON(c.App.Writer, list, false)
	}
	return fabric.Print(c.App.Writer, list)
}
