package initiator

import (
	"context"
	"fmt"
	"time"

	"rbd/wire"
)

// adminCommand is a command with its data and whoever waits for it.
type adminCommand struct {
	sqe wire.SQE
	out []byte // data for the controller, or
	in  int    // bytes of data from the controller
	// patient commands have no time limit.
	patient bool
}

// name says which command it is, for errors.
func (a *adminCommand) name() string {
	if a.sqe.Opcode == wire.OpcodeFabrics {
		return a.sqe.FabricsType().String()
	}
	op := wire.AdminOpcode(a.sqe.Opcode)
	switch op {
	case wire.AdminIdentify:
		return op.String() + " " + wire.ParseIdentify(&a.sqe).CNS.String()
	case wire.AdminGetLogPage:
		return op.String() + " " + wire.ParseGetLogPage(&a.sqe).LID.String()
	case wire.AdminSetFeatures:
		return op.String() + " " + wire.ParseSetFeatures(&a.sqe).FID.String()
	}
	return op.String()
}

// exec runs a command on a queue and waits for the answer. It returns the data
// from the controller. An error status is a *CommandError.
func (a *association) exec(ctx context.Context, q *Queue, cmd adminCommand) (data []byte, cqe wire.CQE, err error) {
	cl := newCall()
	n := max(len(cmd.out), cmd.in)
	if n > 0 {
		if err := a.c.adminPool.Get(ctx, n, &cl.req.Buf); err != nil {
			return nil, cqe, fmt.Errorf("%s: %w", cmd.name(), err)
		}
		cl.pool = a.c.adminPool
		copy(cl.req.Buf.Data, cmd.out)
	}
	cl.cmd = command{sqe: cmd.sqe, inCapsule: len(cmd.out) > 0, patient: cmd.patient}
	cl.req.Op, cl.req.Length, cl.req.cmd = opCommand, uint64(n), &cl.cmd
	if err := cl.run(ctx, q); err != nil {
		return nil, cqe, fmt.Errorf("%s: %w", cmd.name(), err)
	}
	defer cl.release()
	if cl.req.Err != nil {
		return nil, cqe, fmt.Errorf("%s: %w", cmd.name(), cl.req.Err)
	}
	cqe = cl.cmd.cqe
	if !cqe.Status.OK() {
		return nil, cqe, &CommandError{
			Command: cmd.name(), Fabrics: cmd.sqe.Opcode == wire.OpcodeFabrics, Status: cqe.Status, DW0: cqe.DW0(),
		}
	}
	if cmd.in > 0 {
		data = append(data, cl.req.Buf.Data[:cmd.in]...)
	}
	return data, cqe, nil
}

func (a *association) propertyGet(ctx context.Context, p wire.Property) (uint64, error) {
	_, cqe, err := a.exec(ctx, a.admin, adminCommand{sqe: wire.NewPropertyGet(p).SQE()})
	if err != nil {
		return 0, fmt.Errorf("%s: %w", p, err)
	}
	if p.Size() == 4 {
		return uint64(cqe.DW0()), nil
	}
	return cqe.Result, nil
}

func (a *association) propertySet(ctx context.Context, p wire.Property, value uint64) error {
	if _, _, err := a.exec(ctx, a.admin, adminCommand{sqe: wire.NewPropertySet(p, value).SQE()}); err != nil {
		return fmt.Errorf("%s: %w", p, err)
	}
	return nil
}

// awaitStatus reads CSTS until the controller is what is wanted, for at most
// limit.
func (a *association) awaitStatus(ctx context.Context, limit time.Duration, what string, done func(wire.CSTS) bool) error {
	deadline := time.Now().Add(limit)
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		v, err := a.propertyGet(ctx, wire.PropertyCSTS)
		if err != nil {
			return err
		}
		status := wire.CSTS(v)
		switch {
		case done(status):
			return nil
		case status.CFS():
			return fmt.Errorf("the controller reports a fatal error (CSTS 0x%x)", v)
		case time.Now().After(deadline):
			return fmt.Errorf("the controller is not %s after %v (CSTS 0x%x): %w", what, limit, v, ErrTimeout)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("wait for the controller to be %s: %w", what, context.Cause(ctx))
		}
	}
}

// identify asks for an Identify structure.
func (a *association) identify(ctx context.Context, i wire.Identify) ([]byte, error) {
	data, _, err := a.exec(ctx, a.admin, adminCommand{sqe: i.SQE(), in: wire.IdentifySize})
	return data, err
}

// logPage reads n bytes, a multiple of 4, at off of a log page. With clear, the
// page's event may be sent again.
func (a *association) logPage(ctx context.Context, lid wire.LogID, nsid uint32, off uint64, n int, clear bool) ([]byte, error) {
	g := wire.NewGetLogPage(lid, nsid, off, uint32(n))
	g.RAE = !clear
	data, _, err := a.exec(ctx, a.admin, adminCommand{sqe: g.SQE(), in: n})
	return data, err
}

// setFeature sets a feature and returns dword 0 of the answer.
func (a *association) setFeature(ctx context.Context, fid wire.FeatureID, value uint32) (uint32, error) {
	_, cqe, err := a.exec(ctx, a.admin, adminCommand{sqe: wire.SetFeatures{FID: fid, CDW11: value}.SQE()})
	return cqe.DW0(), err
}

// shutdown is the orderly end: no more requests, the rest finished, and the
// controller told (NVMe Base, Shutdown).
func (a *association) shutdown(ctx context.Context) error {
	a.c.closeQueues()
	for _, q := range a.c.queues {
		if err := q.drain(ctx); err != nil {
			return err
		}
	}
	v, err := a.propertyGet(ctx, wire.PropertyCC)
	if err != nil {
		return err
	}
	if err := a.propertySet(ctx, wire.PropertyCC, uint64(wire.CC(v).WithSHN(wire.ShutdownNormal))); err != nil {
		return err
	}
	return a.awaitStatus(ctx, shutdownLimit, "shut down", func(s wire.CSTS) bool {
		return s.SHST() == wire.ShutdownComplete
	})
}

// shutdownLimit bounds the wait for the controller's shutdown.
const shutdownLimit = 5 * time.Second
