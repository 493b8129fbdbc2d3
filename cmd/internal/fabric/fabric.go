package fabric

import (
	"rbd/cmd/internal/command"
	"rbd/verbs"
	"rbd/verbs/ibv"
	"rbd/verbs/iwarp"
)

// Fabrics are the providers of one process.
type Fabrics struct {
	iwarp *iwarp.Provider
	rdma  *ibv.Provider
}

// New makes the providers of this process. Nothing is opened before it is used.
func New() *Fabrics { return &Fabrics{iwarp: iwarp.New(), rdma: ibv.New()} }

// Provider is the provider of an address.
func (f *Fabrics) Provider(addr verbs.Addr) (verbs.Provider, error) {
	switch addr.Fabric {
	case iwarp.Name:
		return f.iwarp, nil
	case ibv.Name:
		return f.rdma, nil
	}
	return nil, command.Usagef("address %q: fabric %q is neither iwarp nor rdma", addr, addr.Fabric)
}
