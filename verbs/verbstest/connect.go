package verbstest

import "rbd/verbs"

// Listen listens on a free port of the fabric's address until the case ends.
func (e *Env) Listen() verbs.Listener {
	e.T.Helper()
	return e.ListenOn(e.Fabric.Listen)
}

// ListenOn listens on an address until the case ends.
func (e *Env) ListenOn(addr verbs.Addr) verbs.Listener {
	e.T.Helper()
	l, err := e.Provider.Listen(e.Context(), addr)
	if err != nil {
		e.T.Fatalf("listen on %v: %v", addr, err)
	}
	e.T.Cleanup(func() { e.Destroy("listener", l.Close) })
	return l
}

// Resolve makes the CMID of an active side.
func (e *Env) Resolve(addr verbs.Addr) verbs.CMID {
	e.T.Helper()
	id, err := e.Provider.ResolveAddr(e.Context(), addr)
	if err != nil {
		e.T.Fatalf("resolve %v: %v", addr, err)
	}
	e.T.Cleanup(func() { e.Destroy("CMID", id.Destroy) })
	return id
}

// GetRequest takes a listener's next request.
func (e *Env) GetRequest(l verbs.Listener) verbs.CMID {
	e.T.Helper()
	id, err := l.GetRequest(e.Context())
	if err != nil {
		e.T.Fatalf("get a connection request: %v", err)
	}
	e.T.Cleanup(func() { e.Destroy("CMID", id.Destroy) })
	return id
}
