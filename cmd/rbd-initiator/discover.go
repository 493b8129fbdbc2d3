package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"rbd/cmd/internal/command"
	"rbd/initiator"
	"rbd/wire"
)

func discoverCommand() *cli.Command {
	return &cli.Command{
		Name:   "discover",
		Usage:  "list the subsystems of a target",
		Flags:  addressFlags(),
		Action: discover,
	}
}

func discover(c *cli.Context) error {
	asJSON, err := command.JSON(c)
	if err != nil {
		return err
	}
	e, err := parseEndpoint(c)
	if err != nil {
		return err
	}
	log, err := initiator.Discover(c.Context, e.provider, e.addr, initiator.Options{Host: e.host, Logger: command.Logger(c)})
	if err != nil {
		return err
	}
	if asJSON {
		return command.PrintJSON(c.App.Writer, discoveryJSON(log), false)
	}
	return printDiscovery(c.App.Writer, log)
}

// printDiscovery writes the log page in the form that nvme-cli made known.
func printDiscovery(w io.Writer, log initiator.DiscoveryLog) error {
	var b strings.Builder
	fmt.Fprintf(&b, "\nDiscovery Log Number of Records %d, Generation counter %d\n", len(log.Entries), log.Generation)
	for i, e := range log.Entries {
		fmt.Fprintf(&b, "=====Discovery Log Entry %d======\n", i)
		for _, f := range []struct {
			name  string
			value any
		}{
			{"trtype", e.TRTYPE}, {"adrfam", e.ADRFAM}, {"subtype", e.SUBTYPE}, {"treq", e.TREQ}, {"portid", e.PORTID},
			{"trsvcid", printable(wire.Text(e.TRSVCID[:]))}, {"subnqn", printable(e.SUBNQN.String())}, {"traddr", printable(wire.Text(e.TRADDR[:]))},
			{"rdma_prtype", e.TSAS.PRTYPE}, {"rdma_qptype", e.TSAS.QPTYPE}, {"rdma_cms", e.TSAS.CMS}, {"rdma_pkey", fmt.Sprintf("0x%04x", e.TSAS.PKEY)},
		} {
			fmt.Fprintf(&b, "%-8s %v\n", f.name+":", f.value)
		}
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// printable keeps what a target sends from acting on the user's terminal.
func printable(s string) string {
	if q := strconv.Quote(s); q != `"`+s+`"` {
		return q
	}
	return s
}

type discoveryRecord struct {
	TRType  string `json:"trtype"`
	AdrFam  string `json:"adrfam"`
	SubType string `json:"subtype"`
	TReq    string `json:"treq"`
	PortID  uint16 `json:"portid"`
	TrSvcID string `json:"trsvcid"`
	SubNQN  string `json:"subnqn"`
	TrAddr  string `json:"traddr"`
	CNTLID  uint16 `json:"cntlid"`
	PrType  string `json:"rdma_prtype"`
	QPType  string `json:"rdma_qptype"`
	CMS     string `json:"rdma_cms"`
}

// discoveryJSON has the names of nvme-cli's JSON.
func discoveryJSON(log initiator.DiscoveryLog) any {
	records := make([]discoveryRecord, 0, len(log.Entries))
	for _, e := range log.Entries {
		records = append(records, discoveryRecord{
			TRType: e.TRTYPE.String(), AdrFam: e.ADRFAM.String(), SubType: e.SUBTYPE.String(), TReq: e.TREQ.String(), PortID: e.PORTID,
			TrSvcID: printable(wire.Text(e.TRSVCID[:])), SubNQN: printable(e.SUBNQN.String()), TrAddr: printable(wire.Text(e.TRADDR[:])), CNTLID: e.CNTLID,
			PrType: e.TSAS.PRTYPE.String(), QPType: e.TSAS.QPTYPE.String(), CMS: e.TSAS.CMS.String(),
		})
	}
	return struct {
		Generation uint64            `json:"genctr"`
		Records    []discoveryRecord `json:"records"`
	}{log.Generation, records}
}
