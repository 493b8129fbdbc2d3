package nbd

import (
	"cmp"
	"slices"
)

// Client is a client that has an export open.
type Client struct {
	// Name is its process ("pid 7") on a Unix socket, else its address.
	Name   string
	Export string
}

// Clients are those that have an export open on a connection with a handshake, in the
// order of their names.
func (s *Server) Clients() []Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Client
	for c := range s.conns {
		if c.opened && !c.sock.HungUp() {
			all = append(all, Client{Name: c.client, Export: c.sess.export.Name})
		}
	}
	slices.SortFunc(all, func(a, b Client) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Export, b.Export))
	})
	return all
}

// InFlight is how many requests wait for their answer, on all connections.
func (s *Server) InFlight() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		n += c.inFlight()
	}
	return n
}

func (c *conn) inFlight() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.free == nil { // still negotiating
		return 0
	}
	return len(c.slots) - len(c.free)
}
