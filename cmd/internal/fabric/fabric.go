package fabric

import (
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"rbd/cmd/internal/command"
	"rbd/verbs"
	"rbd/verbs/iwarp"
)

// errNoRDMA is why rdma:// can't be used.
var errNoRDMA = errors.New("RDMA devices through rdma-core are not supported yet; use iwarp://, which needs no device")

// Fabrics are the providers of one process.
type Fabrics struct {
	iwarp verbs.Provider
}

// New makes the providers of this process.
func New() *Fabrics { return &Fabrics{iwarp: iwarp.New()} }

// Provider is the provider of an address.
func (f *Fabrics) Provider(addr verbs.Addr) (verbs.Provider, error) {
	switch addr.Fabric {
	case f.iwarp.Name():
		return f.iwarp, nil
	case "rdma":
		return nil, fmt.Errorf("%s: %w", addr, errNoRDMA)
	}
	return nil, command.Usagef("address %q: fabric %q is neither iwarp nor rdma", addr, addr.Fabric)
}

// Status is one fabric of this machine.
type Status struct {
	Fabric  string   `json:"fabric"`
	Usable  bool     `json:"usable"`
	Devices []string `json:"devices"`
	// Problem says why the fabric can't be used, and the remedy.
	Problem string `json:"problem,omitempty"`
}

// Status lists the fabrics.
func (f *Fabrics) Status() []Status {
	s := Status{Fabric: f.iwarp.Name(), Devices: []string{}}
	devices, err := f.iwarp.Devices()
	if err != nil {
		s.Problem = err.Error()
	}
	for _, d := range devices {
		s.Devices = append(s.Devices, d.Name())
	}
	s.Usable = len(devices) > 0
	return []Status{s, {Fabric: "rdma", Devices: []string{}, Problem: errNoRDMA.Error()}}
}

// Print writes the fabrics as a table.
func Print(w io.Writer, list []Status) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "FABRIC\tDEVICE\tSTATE")
	for _, s := range list {
		if !s.Usable {
			fmt.Fprintf(t, "%s\t-\tnot usable: %s\n", s.Fabric, s.Problem)
		}
		for _, d := range s.Devices {
			fmt.Fprintf(t, "%s\t%s\tusable\n", s.Fabric, d)
		}
	}
	return t.Flush()
}
