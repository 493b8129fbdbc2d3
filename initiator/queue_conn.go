package initiator

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"rbd/verbs"
	"rbd/wire"
)

// maxReads bounds how many RDMA READs the target may have outstanding on one
// queue. Peers want a power of two; Linux takes up to 128.
const maxReads = 128

// minReceives is the least HRQSIZE that is announced. nvmet sizes its send queue by
// it, for a read in pieces of as few SGEs as its device takes, and lets a read that
// needs more work requests than it has wait for ever: over siw a read of 1 MiB
// needs 11. Linux as host announces no fewer than 16.
const minReceives = 16

// queueConn is the RDMA connection of a queue.
type queueConn struct {
	id             verbs.CMID
	sendCQ, recvCQ verbs.CQ
	qp             verbs.QP
}

// open makes the RDMA connection of the queue on id, which the queue owns from
// now on, in any case: an error leaves it to be ended by cut and end.
func (q *Queue) open(ctx context.Context, id verbs.CMID, pd verbs.PD, cntlid uint16) error {
	q.conn.id = id
	slots := len(q.x.slots)
	entries := slots + 1 // a queue of n entries holds n-1 commands
	receives := max(entries, minReceives)
	dev := id.Device()
	attr := dev.Attr()
	if receives > attr.MaxQPWR || receives > attr.MaxCQE {
		return fmt.Errorf("queue of %d entries: device %s has %d work requests and %d completions: %w",
			receives, dev.Name(), attr.MaxQPWR, attr.MaxCQE, verbs.ErrInvalid)
	}
	if err := q.register(pd, slots, receives); err != nil {
		return err
	}
	var err error
	if q.conn.sendCQ, err = dev.CreateCQ(verbs.CQAttr{Depth: entries}); err != nil {
		return fmt.Errorf("create send completion queue: %w", err)
	}
	if q.conn.recvCQ, err = dev.CreateCQ(verbs.CQAttr{Depth: receives, Handler: q.handle}); err != nil {
		return fmt.Errorf("create receive completion queue: %w", err)
	}
	sges := min(2, attr.MaxSGE)
	if sges < 2 {
		q.capsules.inCapsule = 0 // in-capsule data is gathered
	}
	q.conn.qp, err = id.CreateQP(pd, verbs.QPInitAttr{
		SendCQ: q.conn.sendCQ, RecvCQ: q.conn.recvCQ,
		Cap: verbs.QPCap{MaxSendWR: entries, MaxRecvWR: receives, MaxSendSGE: sges, MaxRecvSGE: 1},
	})
	if err != nil {
		return fmt.Errorf("create queue pair: %w", err)
	}
	if err := q.conn.qp.PostRecv(q.rcv.all); err != nil {
		return err
	}
	request := wire.CMRequest{QID: q.id, HRQSize: uint16(receives), HSQSize: uint16(entries - 1), CNTLID: cntlid}
	reply, err := id.Connect(ctx, verbs.ConnParam{
		PrivateData:        request.Append(nil),
		ResponderResources: readDepth(attr.MaxQPRdAtom),
	})
	if err != nil {
		return rejection(err)
	}
	if err := q.limit(reply.PrivateData); err != nil {
		return err
	}
	ctx, q.stop = context.WithCancel(context.WithoutCancel(ctx))
	q.minder.Go(func() { q.mind(ctx) })
	return nil
}

// register makes the memory of the capsules, command and response.
func (q *Queue) register(pd verbs.PD, slots, receives int) (err error) {
	if q.capsules.mem, err = verbs.AllocMemory(slots*capsuleStride + zeroesSize); err != nil {
		return fmt.Errorf("command capsules: %w", err)
	}
	if q.capsules.mr, err = pd.RegMR(q.capsules.mem, verbs.AccessRemoteRead); err != nil {
		return fmt.Errorf("register command capsules: %w", err)
	}
	if q.rcv.mem, err = verbs.AllocMemory(receives * responseStride); err != nil {
		return fmt.Errorf("response capsules: %w", err)
	}
	if q.rcv.mr, err = pd.RegMR(q.rcv.mem, verbs.AccessLocalWrite); err != nil {
		return fmt.Errorf("register response capsules: %w", err)
	}
	q.rcv.prepare(receives)
	return nil
}

// readDepth is the largest power of two that the device and peers allow.
func readDepth(device int) int {
	n := min(device, maxReads)
	if n < 1 {
		return 1
	}
	return 1 << (bits.Len(uint(n)) - 1)
}

// limit lowers the number of slots to what the controller's receive queue takes.
func (q *Queue) limit(privateData []byte) error {
	var reply wire.CMReply
	if len(privateData) < wire.CMReplySize || reply.Parse(privateData) != nil {
		return nil // Linux ignores it altogether
	}
	if reply.RecFmt != 0 {
		return fmt.Errorf("connection accepted with record format %d, want 0", reply.RecFmt)
	}
	if n := int(reply.CRQSize); n > 0 && n < len(q.x.slots) {
		q.x = newExchange(n)
	}
	return nil
}

// rejection finds the reason of the target in the refusal of a connection.
func rejection(err error) error {
	var r *verbs.RejectError
	if !errors.As(err, &r) || r.Reason != "" {
		return err
	}
	var reject wire.CMReject
	if reject.Parse(r.PrivateData) != nil {
		return fmt.Errorf("the target refused the RDMA connection without a reason: %w", err)
	}
	return fmt.Errorf("the target refused the RDMA connection: %w", reject.Reason)
}

// close refuses further requests with err.
func (q *Queue) close(err error) {
	q.mu.Lock()
	q.refuse = err
	q.mu.Unlock()
}

// drain waits until no request is out or waiting, or ctx ends.
func (q *Queue) drain(ctx context.Context) error {
	for {
		q.mu.Lock()
		idle := q.x.idle()
		q.mu.Unlock()
		if idle {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for requests on queue %d: %w", q.id, context.Cause(ctx))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// cut ends the connection. When it has returned, the peer can't touch memory by
// this queue any more; the requests are still out.
func (q *Queue) cut(err error) {
	q.mu.Lock()
	q.refuse, q.dead = err, true
	q.mu.Unlock()
	if q.conn.qp == nil {
		return
	}
	_ = q.conn.id.Disconnect() // fails if it has ended already
	_ = q.conn.qp.Destroy()
}

// end comes after cut: it completes all requests with err, and frees what the
// queue has.
func (q *Queue) end(err error) error {
	var errs []error
	if q.stop != nil {
		q.stop()
	}
	q.minder.Wait()
	for _, cq := range []verbs.CQ{q.conn.recvCQ, q.conn.sendCQ} {
		if cq != nil {
			errs = append(errs, cq.Destroy())
		}
	}
	q.mu.Lock()
	q.x.abandon(err)
	over := q.x.take(nil)
	q.mu.Unlock()
	q.complete(over)
	for _, mr := range []verbs.MR{q.capsules.mr, q.rcv.mr} {
		if mr != nil {
			errs = append(errs, mr.Dereg())
		}
	}
	for _, mem := range [][]byte{q.capsules.mem, q.rcv.mem} {
		if mem != nil {
			errs = append(errs, verbs.FreeMemory(mem))
		}
	}
	if q.conn.id != nil {
		errs = append(errs, q.conn.id.Destroy())
	}
	return errors.Join(errs...)
}
