// Command rbd-initiator makes exports of NVMe/RDMA targets local disks.
package main

import (
	"github.com/urfave/cli/v2"

	"rbd/cmd/internal/command"
)

func main() {
	command.Main(newApp())
}

func newApp() *cli.App {
	return &cli.App{
		Name:  "rbd-initiator",
		Usage: "make a disk of another host a local one, over NVMe/RDMA",
		Commands: []*cli.Command{
			discoverCommand(), connectCommand(), listCommand(), disconnectCommand(), disconnectAllCommand(), benchCommand(), perfCommand(), devicesCommand(),
		},
	}
}
