package initiator

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"sync"

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

// queueConn is one RDMA connection of a queue, with the commands that are out on
// it. It is made for each connection anew; what a goroutine still does for an old
// one can't disturb the next.
type queueConn struct {
	q *Queue
	// fail reports that the connection can't be used any more. It does not block.
	fail     func(error)
	capsules capsules
	rcv      responses

	id             verbs.CMID
	sendCQ, recvCQ verbs.CQ
	qp             verbs.QP

	// Under the queue's mu:
	x       *exchange
	sendWCs []verbs.WC
	// dead: the connection is over, nothing is posted any more; why tells why.
	dead bool
	why  error

	// Of the receive handler alone.
	handlerWRs  []verbs.SendWR
	handlerDone []*Request

	// Of the minder alone.
	minderWRs  []verbs.SendWR
	minderDone []*Request
	kick       chan struct{}
	minder     sync.WaitGroup
	stop       context.CancelFunc
}

// connParams say how to make a queue's connection.
type connParams struct {
	pd        verbs.PD
	lkey      uint32 // of the memory on pd that has the data of reads and writes
	rkey      uint32
	cntlid    uint16
	slots     int    // commands that may be out at once, at most
	inCapsule uint64 // bytes of in-capsule data
	fail      func(error)
}

// open makes an RDMA connection for the queue on id, which is the queue's from now
// on, in any case. The connection before has been ended by cut and end.
func (q *Queue) open(ctx context.Context, id verbs.CMID, p connParams) error {
	l := &queueConn{
		q: q, id: id, fail: p.fail,
		kick:        make(chan struct{}, 1),
		sendWCs:     make([]verbs.WC, p.slots),
		handlerWRs:  make([]verbs.SendWR, 0, p.slots),
		minderWRs:   make([]verbs.SendWR, 0, p.slots),
		handlerDone: make([]*Request, 0, p.slots),
		minderDone:  make([]*Request, 0, p.slots),
	}
	l.capsules.inCapsule, l.capsules.lkey, l.capsules.rkey = p.inCapsule, p.lkey, p.rkey
	if err := l.establish(ctx, p); err != nil {
		l.destroyQP()
		_ = l.free() // the first error is the one that matters
		return err
	}
	q.mu.Lock()
	q.conn = l
	q.mu.Unlock()
	ctx, l.stop = context.WithCancel(context.WithoutCancel(ctx))
	l.minder.Go(func() { l.mind(ctx) })
	return nil
}

// establish makes all that a connection has, and connects.
func (l *queueConn) establish(ctx context.Context, p connParams) error {
	entries := p.slots + 1 // a queue of n entries holds n-1 commands
	receives := max(entries, minReceives)
	dev := l.id.Device()
	attr := dev.Attr()
	if receives > attr.MaxQPWR || receives > attr.MaxCQE {
		return fmt.Errorf("queue of %d entries: device %s has %d work requests and %d completions: %w",
			receives, dev.Name(), attr.MaxQPWR, attr.MaxCQE, verbs.ErrInvalid)
	}
	l.x = newExchange(p.slots)
	if err := l.register(p.pd, p.slots, receives); err != nil {
		return err
	}
	var err error
	if l.sendCQ, err = dev.CreateCQ(verbs.CQAttr{Depth: entries}); err != nil {
		return fmt.Errorf("create send completion queue: %w", err)
	}
	if l.recvCQ, err = dev.CreateCQ(verbs.CQAttr{Depth: receives, Handler: l.handle}); err != nil {
		return fmt.Errorf("create receive completion queue: %w", err)
	}
	sges := min(2, attr.MaxSGE)
	if sges < 2 {
		l.capsules.inCapsule = 0 // in-capsule data is gathered
	}
	l.qp, err = l.id.CreateQP(p.pd, verbs.QPInitAttr{
		SendCQ: l.sendCQ, RecvCQ: l.recvCQ,
		Cap: verbs.QPCap{MaxSendWR: entries, MaxRecvWR: receives, MaxSendSGE: sges, MaxRecvSGE: 1},
	})
	if err != nil {
		return fmt.Errorf("create queue pair: %w", err)
	}
	if err := l.qp.PostRecv(l.rcv.all); err != nil {
		return err
	}
	request := wire.CMRequest{QID: l.q.id, HRQSize: uint16(receives), HSQSize: uint16(entries - 1), CNTLID: p.cntlid}
	reply, err := l.id.Connect(ctx, verbs.ConnParam{
		PrivateData:        request.Append(nil),
		ResponderResources: readDepth(attr.MaxQPRdAtom),
	})
	if err != nil {
		return rejection(err)
	}
	return l.limit(reply.PrivateData)
}

// register makes the memory of the capsules, command and response.
func (l *queueConn) register(pd verbs.PD, slots, receives int) (err error) {
	if l.capsules.mem, err = verbs.AllocMemory(slots*capsuleStride + zeroesSize); err != nil {
		return fmt.Errorf("command capsules: %w", err)
	}
	if l.capsules.mr, err = pd.RegMR(l.capsules.mem, verbs.AccessRemoteRead); err != nil {
		return fmt.Errorf("register command capsules: %w", err)
	}
	if l.rcv.mem, err = verbs.AllocMemory(receives * responseStride); err != nil {
		return fmt.Errorf("response capsules: %w", err)
	}
	if l.rcv.mr, err = pd.RegMR(l.rcv.mem, verbs.AccessLocalWrite); err != nil {
		return fmt.Errorf("register response capsules: %w", err)
	}
	l.rcv.prepare(receives)
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
func (l *queueConn) limit(privateData []byte) error {
	var reply wire.CMReply
	if len(privateData) < wire.CMReplySize || reply.Parse(privateData) != nil {
		return nil // Linux ignores it altogether
	}
	if reply.RecFmt != 0 {
		return fmt.Errorf("connection accepted with record format %d, want 0", reply.RecFmt)
	}
	if n := int(reply.CRQSize); n > 0 && n < len(l.x.slots) {
		l.q.mu.Lock() // the peer may have sent something already
		l.x = newExchange(n)
		l.q.mu.Unlock()
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
	if reject.RecFmt != 0 {
		return fmt.Errorf("what refused the RDMA connection is no NVMe target; is this the port of 'rbd-target perf'? (%w)", err)
	}
	return fmt.Errorf("the target refused the RDMA connection: %w", reject.Reason)
}

// cut ends the connection because of err. When it has returned, the peer can't
// touch memory by this queue any more; the requests are still out.
func (q *Queue) cut(err error) {
	q.mu.Lock()
	l := q.conn
	l.dead, l.why = true, err
	q.mu.Unlock()
	l.destroyQP()
}

func (l *queueConn) destroyQP() {
	if l.qp == nil {
		return
	}
	_ = l.id.Disconnect() // fails if it has ended already
	_ = l.qp.Destroy()
}

// end comes after cut: it frees what the connection has, and holds its requests or
// completes them with err.
func (q *Queue) end(err error) error {
	l := q.conn // nobody opens another one meanwhile
	l.stop()
	l.minder.Wait()
	errs := []error{l.recvCQ.Destroy()} // the handler has ended
	l.recvCQ = nil
	q.retreat(err)
	return errors.Join(append(errs, l.free())...)
}

// free gives back what a connection has that is cut.
func (l *queueConn) free() error {
	var errs []error
	for _, cq := range []verbs.CQ{l.recvCQ, l.sendCQ} {
		if cq != nil {
			errs = append(errs, cq.Destroy())
		}
	}
	for _, mr := range []verbs.MR{l.capsules.mr, l.rcv.mr} {
		if mr != nil {
			errs = append(errs, mr.Dereg())
		}
	}
	for _, mem := range [][]byte{l.capsules.mem, l.rcv.mem} {
		if mem != nil {
			errs = append(errs, verbs.FreeMemory(mem))
		}
	}
	return errors.Join(append(errs, l.id.Destroy())...)
}
