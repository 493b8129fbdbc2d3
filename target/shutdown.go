package target

import (
	"context"
	"errors"
	"fmt"
	"time"
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
// and closed. If ctx has a deadline, connections are cut when half of the time is over,
// and after three quarters the backends are flushed and closed that no command uses
// any more. What is not done when ctx ends is named in the error, and stays open.
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
	answered, cancel := part(ctx, 2)
	defer cancel()
	for _, c := range conns {
		c.quiet(answered)
	}
	for _, c := range conns { // only now: the end of an admin queue ends the others
		c.cut(ErrShutdown)
	}
	done := make(chan struct{})
	go func() { t.work.Wait(); close(done) }()
	ended, cancel := part(ctx, 2)
	defer cancel()
	select {
	case <-done:
		return errors.Join(t.closeBackends(ctx), t.closeDevices())
	case <-ended.Done():
		err := fmt.Errorf("connections that do not end: %d: %w", t.connections(), context.Cause(ended))
		return errors.Join(err, t.closeBackends(ctx))
	}
}

// part is a context for the n-th part of the time that ctx has left.
func part(ctx context.Context, n int) (context.Context, context.CancelFunc) {
	if end, ok := ctx.Deadline(); ok {
		return context.WithTimeout(ctx, time.Until(end)/time.Duration(n))
	}
	return context.WithCancel(ctx)
}

// connections is how many there are.
func (t *Target) connections() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.conns)
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

// closeBackends flushes and closes the backends, each when its last command is done.
func (t *Target) closeBackends(ctx context.Context) error {
	t.mu.Lock()
	names := make(map[*namespace]string)
	for _, s := range t.subsystems {
		for _, n := range s.namespaces().active(0) {
			if s.swap(n.nsid, n, nil) {
				names[n] = fmt.Sprintf("namespace %d of %s", n.nsid, s.nqn)
			}
		}
	}
	t.mu.Unlock()
	for n := range names {
		n.close()
	}
	var errs []error
	for n, name := range names {
		select {
		case <-n.closed:
			if n.err != nil {
				errs = append(errs, fmt.Errorf("close %s: %w", name, n.err))
			}
		case <-ctx.Done():
			errs = append(errs, fmt.Errorf("close %s: %w", name, context.Cause(ctx)))
		}
	}
	return errors.Join(errs...)
}

// closeDevices frees what the devices have.
func (t *Target) closeDevices() error {
	t.mu.Lock()
	devices := t.devices
	t.devices = nil
	t.mu.Unlock()
	var errs []error
	for _, d := range devices {
		errs = append(errs, d.close())
	}
	return errors.Join(errs...)
}
