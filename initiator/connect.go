package initiator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"rbd/verbs"
	"rbd/verbs/bufpool"
	"rbd/wire"
)

// Connect connects to the subsystem opts.SubNQN at addr, and returns when its
// disks can be used. The connection outlives ctx, which bounds only the making of
// it. Errors are of the type *ConnectError, or say which option is wrong.
func Connect(ctx context.Context, p verbs.Provider, addr verbs.Addr, opts Options) (*Controller, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := checkNQN(opts.SubNQN); err != nil {
		return nil, err
	}
	if opts.SubNQN == wire.DiscoveryNQN {
		return nil, fmt.Errorf("subsystem NQN: %s is the discovery subsystem, which has no disks: %w", opts.SubNQN, verbs.ErrInvalid)
	}
	c := newController(p, addr, opts)
	if err := c.connect(ctx, c.steps()); err != nil {
		return nil, err
	}
	c.become(StateLive)
	close(c.live)
	if c.events {
		c.background.Go(c.watchEvents)
	}
	return c, nil
}

// step is one part of connecting.
type step struct {
	stage Stage
	run   func(context.Context) error
}

// adminSteps lead to a controller with which admin commands can be exchanged.
func (c *Controller) adminSteps() []step {
	return []step{
		{StageDial, c.dialAdmin},
		{StageConnect, c.connectAdmin},
		{StageEnable, c.enable},
		{StageIdentify, c.identifyController},
	}
}

// steps lead to a controller with disks.
func (c *Controller) steps() []step {
	return append(c.adminSteps(),
		step{StageIdentify, c.checkController},
		step{StageQueues, c.openQueues},
		step{StageNamespaces, c.enableEvents}, // first, so that no change is missed
		step{StageNamespaces, c.scan},
	)
}

// connect runs steps. After an error everything is freed.
func (c *Controller) connect(ctx context.Context, steps []step) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.life, func() { cancel(context.Cause(c.life)) })()
	for _, s := range steps {
		if err := s.run(ctx); err != nil {
			err = c.connectError(ctx, s.stage, err)
			c.kill(err)
			_ = c.Close(ctx) // frees what is there; the error is known
			return err
		}
	}
	return nil
}

// connectError is the error of a stage. What ended the wait explains more than
// that it ended.
func (c *Controller) connectError(ctx context.Context, stage Stage, err error) error {
	switch {
	case errors.Is(err, ErrConnectionLost) && c.Err() != nil:
		err = c.Err()
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
	}
	return &ConnectError{Addr: c.addr, SubNQN: c.opts.SubNQN, HostNQN: c.opts.Host.NQN, Stage: stage, Err: err}
}

// dial makes a queue's RDMA connection. prepare is called when the device is
// known.
func (c *Controller) dial(ctx context.Context, q *Queue, prepare func(verbs.Device) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.opts.ConnectTimeout,
		fmt.Errorf("no RDMA connection after %v: %w", c.opts.ConnectTimeout, ErrTimeout))
	defer cancel()
	id, err := c.provider.ResolveAddr(ctx, c.addr)
	if err == nil {
		if err = prepare(id.Device()); err == nil {
			err = q.open(ctx, id, c.pd, c.info.cntlid)
		} else {
			_ = id.Destroy()
		}
	}
	if err == nil {
		if err = c.attach(q); err == nil {
			return nil
		}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		err = context.Cause(ctx)
	}
	q.cut(err)
	_ = q.end(err) // the first error is the one that matters
	return err
}

// dialAdmin makes the admin queue's connection, and what all queues share.
func (c *Controller) dialAdmin(ctx context.Context) error {
	c.admin = c.newQueue(0, adminQueueSize)
	return c.dial(ctx, c.admin, func(dev verbs.Device) (err error) {
		if c.pd, err = dev.AllocPD(); err != nil {
			return fmt.Errorf("allocate protection domain: %w", err)
		}
		c.adminPool, err = bufpool.New(c.pd, adminBuffers, adminTransfer, dataAccess)
		return err
	})
}

// dataAccess are the rights of memory that the target reads and writes.
const dataAccess = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead

func (c *Controller) newQueue(id uint16, size int) *Queue {
	return newQueue(id, size-1, queueControl{tick: &c.tick, namespaces: &c.namespaces, fail: c.fail})
}

// fabricsConnect binds a queue to the controller.
func (c *Controller) fabricsConnect(ctx context.Context, q *Queue, size int, cntlid uint16) (wire.ConnectResult, error) {
	cmd := wire.Connect{QID: q.id, SQSize: uint16(size - 1)}
	if q.id == 0 {
		cmd.KATO = c.opts.kato()
	}
	data := wire.ConnectData{
		HostID: c.opts.Host.ID, CNTLID: cntlid,
		SubNQN: wire.MakeNQNField(c.opts.SubNQN), HostNQN: wire.MakeNQNField(c.opts.Host.NQN),
	}
	_, cqe, err := c.exec(ctx, q, adminCommand{sqe: cmd.SQE(), out: data.Append(nil)})
	if err != nil {
		return wire.ConnectResult{}, err
	}
	result := wire.ParseConnectResult(cqe.DW0())
	if result.ATR || result.ASCR {
		return result, errors.New("the target wants authentication, which is not supported")
	}
	return result, nil
}

func (c *Controller) connectAdmin(ctx context.Context) error {
	result, err := c.fabricsConnect(ctx, c.admin, adminQueueSize, wire.CNTLIDDynamic)
	c.info.cntlid = result.CNTLID
	return err
}

// enable makes the controller ready (NVMe Base, Controller Initialization).
func (c *Controller) enable(ctx context.Context) error {
	v, err := c.propertyGet(ctx, wire.PropertyCAP)
	if err != nil {
		return err
	}
	c.info.cap = wire.CAP(v)
	css := wire.CCCSSNVM
	if c.info.cap.CSS()&wire.CAPCSSIOCS != 0 {
		css = wire.CCCSSAll
	}
	if c.info.cap.MPSMIN() != 0 {
		return fmt.Errorf("memory pages of at least 2^%d bytes are not supported", 12+c.info.cap.MPSMIN())
	}
	cc := wire.MakeCC(css)
	for _, value := range []wire.CC{cc, cc.WithEN(true)} {
		if err := c.propertySet(ctx, wire.PropertyCC, uint64(value)); err != nil {
			return err
		}
	}
	limit := c.info.cap.Timeout() + 500*time.Millisecond
	if err := c.awaitStatus(ctx, limit, "ready", wire.CSTS.RDY); err != nil {
		return err
	}
	v, err = c.propertyGet(ctx, wire.PropertyVS)
	c.info.vs = wire.Version(v)
	return err
}

func (c *Controller) identifyController(ctx context.Context) error {
	data, err := c.identify(ctx, wire.Identify{CNS: wire.CNSController})
	if err != nil {
		return err
	}
	id := &c.info.id
	if err := id.Parse(data); err != nil {
		return err
	}
	c.info.maxTransfer = transferLimit(id.MDTS, uint64(c.opts.MaxTransfer))
	if id.CNTLID != c.info.cntlid {
		return fmt.Errorf("the controller says it is %d, but it was connected as %d", id.CNTLID, c.info.cntlid)
	}
	return nil
}

// transferLimit is the lower of most and 2^exponent pages; exponent 0 means that
// there is no limit.
func transferLimit(exponent uint8, most uint64) uint64 {
	if exponent == 0 || exponent > 40 {
		return most
	}
	return min(most, 4096<<exponent)
}

// checkController sees whether an I/O controller has what RDMA needs, and takes
// its limits.
func (c *Controller) checkController(ctx context.Context) error {
	id := &c.info.id
	switch {
	case id.CNTRLTYPE > wire.ControllerIO:
		return fmt.Errorf("controller type %d has no disks", id.CNTRLTYPE)
	case id.SGLS&wire.SGLSKeyed == 0:
		return fmt.Errorf("the controller has no keyed SGLs (SGLS 0x%x)", id.SGLS)
	case id.ICDOFF != 0:
		return fmt.Errorf("in-capsule data at an offset (ICDOFF %d) is not supported", id.ICDOFF)
	case id.IOCCSZ < wire.SQESize/16 || id.IORCSZ < wire.CQESize/16:
		return fmt.Errorf("capsules are too small for NVMe (IOCCSZ %d, IORCSZ %d)", id.IOCCSZ, id.IORCSZ)
	case id.KAS == 0 && c.opts.kato() != 0:
		return fmt.Errorf("the controller has no keep alive (KAS 0); connect without keep-alive timeout")
	}
	c.info.queueSize = min(c.opts.QueueSize, int(c.info.cap.MQES())+1)
	if id.MAXCMD > 0 {
		c.info.queueSize = min(c.info.queueSize, int(id.MAXCMD))
	}
	if c.info.queueSize < 2 {
		return fmt.Errorf("the controller's queues have %d entries, fewer than 2", c.info.queueSize)
	}
	if id.SGLS&wire.SGLSOffset != 0 {
		c.info.inCapsule = min(uint64(id.IOCCSZ)*16-wire.SQESize, maxInCapsule)
	}
	return c.identifyNVM(ctx)
}

// identifyNVM takes the limits of the NVM command set, which not every controller
// tells.
func (c *Controller) identifyNVM(ctx context.Context) error {
	c.info.maxZeroes, c.info.maxTrimBlocks = maxZeroesBytes, math.MaxUint32
	data, err := c.identify(ctx, wire.Identify{CNS: wire.CNSCSIController, CSI: wire.CSINVM})
	if isStatus(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var nvm wire.IdentifyNVMController
	if err := nvm.Parse(data); err != nil {
		return err
	}
	c.info.maxZeroes = transferLimit(nvm.WZSL, maxZeroesBytes)
	if nvm.DMRSL != 0 {
		c.info.maxTrimBlocks = uint64(nvm.DMRSL)
	}
	return nil
}
