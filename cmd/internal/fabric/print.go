package fabric

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
)

// Print writes the fabrics as tables: fabrics and devices, then ports, GIDs and
// limits of the RDMA devices.
func Print(w io.Writer, list []Status) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FABRIC\tDEVICE\tTRANSPORT\tSTATE")
	for _, s := range list {
		for _, d := range s.Devices {
			fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", s.Fabric, d.Name, d.Transport, map[bool]string{true: "usable", false: "not usable"}[d.Usable])
		}
		if s.Problem != "" {
			fmt.Fprintf(t, "%s\t-\t-\tnot usable: %s\n", s.Fabric, s.Problem)
		}
	}
	for _, s := range list {
		printPorts(t, s)
		printLimits(t, s)
		if m := s.MemoryLock; m != nil && len(s.Devices) > 0 {
			fmt.Fprintf(t, "\nmemory lock limit\t%s\n", m)
		}
	}
	return t.Flush()
}

// String is the limit for people.
func (m *MemoryLock) String() string {
	if m.Unbounded {
		return "none"
	}
	return fmt.Sprintf("%s, of which %s are in use", humanize.IBytes(m.Limit), humanize.IBytes(m.Used))
}

func printPorts(t io.Writer, s Status) {
	ports, gids := "", ""
	for _, d := range s.Devices {
		for _, p := range d.Ports {
			mtu := "-"
			if p.MTU > 0 {
				mtu = fmt.Sprint(p.MTU)
			}
			ports += fmt.Sprintf("%s\t%d\t%s\t%s\t%s\t%s\t%s\n", d.Name, p.Number, p.State, p.LinkLayer, mtu, p.Rate, orDash(strings.Join(p.NetDevs, ",")))
			for _, g := range p.GIDs {
				gids += fmt.Sprintf("%s\t%d\t%d\t%s\t%s\t%s\n", d.Name, p.Number, g.Index, g.Addr, orDash(g.Type), orDash(g.NetDev))
			}
		}
	}
	if ports != "" {
		fmt.Fprint(t, "\nDEVICE\tPORT\tSTATE\tLINK LAYER\tMTU\tRATE\tINTERFACE\n"+ports)
	}
	if gids != "" {
		fmt.Fprint(t, "\nDEVICE\tPORT\tGID\tADDRESS\tTYPE\tINTERFACE\n"+gids)
	}
}

func printLimits(t io.Writer, s Status) {
	head := "\nDEVICE\tWORK REQUESTS\tSGES\tREAD SGES\tCOMPLETIONS\tREGIONS\tREADS IN/OUT\tINLINE\n"
	for _, d := range s.Devices {
		if l := d.Limits; l != nil && len(d.Ports) > 0 {
			fmt.Fprintf(t, "%s%s\t%d\t%d\t%d\t%d\t%d\t%d/%d\t%d\n", head, d.Name, l.WorkRequests, l.SGEs, l.ReadSGEs, l.Completions, l.Regions, l.ReadsIn, l.ReadsOut, l.Inline)
			head = ""
		}
	}
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
