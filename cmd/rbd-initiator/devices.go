package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"rbd/cmd/internal/command"
	"rbd/cmd/internal/fabric"
)

func devicesCommand() *cli.Command {
	return &cli.Command{
		Name:  "devices",
		Usage: "list the fabrics and RDMA devices of this machine, and its host NQN",
		Flags: append(command.OutputFlags(),
			&cli.StringFlag{Name: "hostnqn", Aliases: []string{"q"}, Hidden: true}, &cli.StringFlag{Name: "hostid", Aliases: []string{"I"}, Hidden: true}),
		Action: devices,
	}
}

func devices(c *cli.Context) error {
	asJSON, err := command.JSON(c)
	if err != nil {
		return err
	}
	host, err := parseHost(c)
	if err != nil {
		return err
	}
	fabrics := fabric.New().Status()
	if asJSON {
		return command.PrintJSON(c.App.Writer, struct {
			HostNQN string          `json:"hostnqn"`
			HostID  string          `json:"hostid"`
			Fabrics []fabric.Status `json:"fabrics"`
		}{host.NQN, host.ID.String(), fabrics}, false)
	}
	fmt.Fprintf(c.App.Writer, "host NQN  %s\nhost ID   %s\n\n", host.NQN, host.ID)
	return fabric.Print(c.App.Writer, fabrics)
}
