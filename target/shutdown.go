package target

import (
	"context"
	"errors"
	"fmt"
)

// start runs a connection, which Shutdown will end; false if that has begun, or
// there are too many.
func (t *Target) start(c *conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopping || len(t.conns) >= t.cfg.Connections {
		return false
	}
	t.conns[c] = struct{}{}
	t.work.Go(c.run)
	return true
}

// ended forgets a connection.
func (t *Target) ended(c *conn) {
	t.mu.Lock()
	delete(t.conns, c)
	t.mu.Unlock()
}

// Shutdown ends the target: no new connections and commands are taken, those that
// were accepted are finished and answered, hosts are disconnected, backends flushed
// and closed. If ctx ends before, connections are cut at once and its error is
// returned; then backends may stay open.
func (t *Target) Shutdown(ctx context.Context) error {
	t.mu.Lock()
	if t.stopping {
		t.mu.Unlock()
		return ErrShutdown
	}
	t.stopping = true
	close(t.stop)
	conns := make([]*conn, 0, len(t.conns))
	for c := range t.conns {
		conns = append(conns, c)
	}
	t.mu.Unlock()
	for _, c := range conns {
		c.drain()
	}
	for _, c := range conns {
		c.quiet(ctx)
	}
	for _, c := range conns { // only now: the end of an admin queue ends the others
		c.cut(ErrShutdown)
	}
	done := make(chan struct{})
	go func() { t.work.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		return fmt.Errorf("shut the target down: %w", ctx.Err())
	}
	return t.closeAll(ctx)
}

// drain lets nothing new begin.
func (c *conn) drain() {
	select {
	case <-c.ready:
		c.q.call(c.q.drain)
	default:
		c.cut(ErrShutdown)
	}
}

// quiet waits until the connection's answers are out, or ctx ends.
func (c *conn) quiet(ctx context.Context) {
	select {
	case <-c.ready:
	default:
		return
	}
	select {
	case <-c.q.quiet:
	case <-c.q.drained:
	case <-ctx.Done():
	}
}

// closeAll flushes and closes the backends, and frees what the devices have.
func (t *Target) closeAll(ctx context.Context) error {
	t.mu.Lock()
	var namespaces []*namespace
	for _, s := range t.subsystems {
		for _, n := range s.namespaces().active(0) {
			if s.swap(n.nsid, n, nil) {
				namespaces = append(namespaces, n)
			}
		}
	}
	devices := t.devices
	t.devices = nil
	t.mu.Unlock()
	var errs []error
	for _, n := range namespaces {
		n.close()
	}
	for _, n := range namespaces {
		select {
		case <-n.closed:
			errs = append(errs, n.err)
		case <-ctx.Done():
			return fmt.Errorf("close the backends: %w", ctx.Err())
		}
	}
	for _, d := range devices {
		errs = append(errs, d.close())
	}
	return errors.Join(errs...)
}
