package fabric

import (
	"fmt"

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

// Provider is the provider of an address whose parameters it takes.
func (f *Fabrics) Provider(addr verbs.Addr) (p verbs.Provider, err error) {
	switch addr.Fabric {
	case iwarp.Name:
		p, err = f.iwarp, iwarp.CheckAddr(addr)
	case ibv.Name:
		p, err = f.rdma, ibv.CheckAddr(addr)
	default:
		err = fmt.Errorf("address %q: fabric %q is neither iwarp nor rdma", addr, addr.Fabric)
	}
	if err != nil {
		return nil, command.Usagef("%v", err)
	}
	return p, nil
}
