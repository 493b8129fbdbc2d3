package target

import (
	"context"
	"errors"
	"fmt"

	"rbd/verbs"
	"rbd/wire"
)

// fabricIWARP is the fabric whose discovery entries say iWARP.
const fabricIWARP = "iwarp"

// Serve takes connections from a listener until ctx ends, Shutdown is called or
// the listener fails, and closes it. Connections live on; Shutdown ends them. It
// returns nil after Shutdown, ctx's error, or the listener's.
func (t *Target) Serve(ctx context.Context, l verbs.Listener, policy AccessPolicy) (err error) {
	defer func() { err = errors.Join(err, l.Close()) }()
	portID, err := t.newPort()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-t.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		id, err := l.GetRequest(ctx)
		switch {
		case err == nil:
			t.handle(id, endpoint{portID: portID, iwarp: l.Addr().Fabric == fabricIWARP, policy: &policy})
		case t.isStopping():
			return nil
		default:
			return fmt.Errorf("serve %s: %w", l.Addr(), err)
		}
	}
}

func (t *Target) newPort() (uint16, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopping {
		return 0, ErrShutdown
	}
	t.ports++
	return t.ports, nil
}

func (t *Target) isStopping() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stopping
}

// handle starts the life of a connection, or refuses it.
func (t *Target) handle(id verbs.CMID, at endpoint) {
	at.addr = addrPort(id.LocalAddr())
	c := newConn(t, id, at)
	if t.start(c) {
		return
	}
	data := wire.CMReject{Reason: wire.RejectNoResources}
	t.logConn(id.RemoteAddr(), "connection refused", errors.Join(wire.RejectNoResources, id.Reject(data.Append(nil))))
}
