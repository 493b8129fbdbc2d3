package initiator

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"rbd/verbs"
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
	a, err := c.associate(ctx, (*association).steps)
	if err == nil {
		if err = c.run(a); err == nil {
			c.tellGranted()
			return c, nil
		}
		err = a.connectError(ctx, StageNamespaces, err)
	}
	if e := c.discard(err); e != nil {
		opts.Logger.Error("free what a failed connect had", "nqn", opts.SubNQN, "err", e)
	}
	return nil, err
}

// tellGranted says what of the options the target has lowered.
func (c *Controller) tellGranted() {
	if n := len(c.queues); n < c.opts.Queues {
		c.opts.Logger.Info("the target grants fewer I/O queues than asked for", "asked", c.opts.Queues, "granted", n)
	}
	if n := c.Info().QueueSize; n < c.opts.QueueSize {
		c.opts.Logger.Info("the target's I/O queues are smaller than asked for", "asked", c.opts.QueueSize, "granted", n)
	}
}

// step is one part of connecting.
type step struct {
	stage Stage
	run   func(context.Context) error
}

// adminSteps lead to a controller with which admin commands can be exchanged.
func (a *association) adminSteps() []step {
	return []step{
		{StageDial, a.dialAdmin},
		{StageConnect, a.connectAdmin},
		{StageEnable, a.enable},
		{StageIdentify, a.identifyController},
	}
}

// steps lead to a controller with disks.
func (a *association) steps() []step {
	return append(a.adminSteps(),
		step{StageIdentify, a.checkController},
		step{StageQueues, a.openQueues},
		step{StageNamespaces, a.enableEvents}, // first, so that no change is missed
		step{StageNamespaces, a.scan},
	)
}

// associate makes an association by steps. After an error nothing is left of it.
func (c *Controller) associate(ctx context.Context, steps func(*association) []step) (*association, error) {
	a := c.newAssociation()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(a.life, func() { cancel(a.err()) })()
	for _, s := range steps(a) {
		if err := s.run(ctx); err != nil {
			err = a.connectError(ctx, s.stage, err)
			a.abort(err)
			return nil, err
		}
	}
	return a, nil
}

// connectError is the error of a stage. What ended the wait explains more than
// that it ended.
func (a *association) connectError(ctx context.Context, stage Stage, err error) error {
	switch {
	case errors.Is(err, ErrConnectionLost) && a.err() != nil:
		err = a.err()
	case errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
	}
	c := a.c
	return &ConnectError{Addr: c.addr, SubNQN: c.opts.SubNQN, HostNQN: c.opts.Host.NQN, Stage: stage, Err: err}
}

// dialAdmin makes the admin queue's connection.
func (a *association) dialAdmin(ctx context.Context) error {
	return a.dial(ctx, a.admin, connParams{slots: adminQueueSize - 1})
}

// dataAccess are the rights of memory that the target reads and writes.
const dataAccess = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead

func (c *Controller) newQueue(id uint16, size int) *Queue {
	return newQueue(id, size-1, queueControl{tick: &c.tick, namespaces: &c.namespaces, lose: c.mayWait})
}

// fabricsConnect binds a queue to the controller.
func (a *association) fabricsConnect(ctx context.Context, q *Queue, size int, cntlid uint16) (wire.ConnectResult, error) {
	cmd := wire.Connect{QID: q.id, SQSize: uint16(size - 1)}
	if q.id == 0 {
		cmd.KATO = a.c.opts.kato()
	}
	data := wire.ConnectData{
		HostID: a.c.opts.Host.ID, CNTLID: cntlid,
		SubNQN: wire.MakeNQNField(a.c.opts.SubNQN), HostNQN: wire.MakeNQNField(a.c.opts.Host.NQN),
	}
	_, cqe, err := a.exec(ctx, q, adminCommand{sqe: cmd.SQE(), out: data.Append(nil)})
	if err != nil {
		return wire.ConnectResult{}, err
	}
	result := wire.ParseConnectResult(cqe.DW0())
	if result.ATR || result.ASCR {
		return result, errAuthentication
	}
	return result, nil
}

// errAuthentication: the target has let the host in only to authenticate it.
var errAuthentication = errors.New("the target wants authentication, which is not supported")

func (a *association) connectAdmin(ctx context.Context) error {
	result, err := a.fabricsConnect(ctx, a.admin, adminQueueSize, wire.CNTLIDDynamic)
	a.info.cntlid = result.CNTLID
	return err
}

// enable makes the controller ready (NVMe Base, Controller Initialization).
func (a *association) enable(ctx context.Context) error {
	v, err := a.propertyGet(ctx, wire.PropertyCAP)
	if err != nil {
		return err
	}
	a.info.cap = wire.CAP(v)
	css := wire.CCCSSNVM
	if a.info.cap.CSS()&wire.CAPCSSIOCS != 0 {
		css = wire.CCCSSAll
	}
	if a.info.cap.MPSMIN() != 0 {
		return fmt.Errorf("memory pages of at least 2^%d bytes are not supported", 12+a.info.cap.MPSMIN())
	}
	cc := wire.MakeCC(css)
	for _, value := range []wire.CC{cc, cc.WithEN(true)} {
		if err := a.propertySet(ctx, wire.PropertyCC, uint64(value)); err != nil {
			return err
		}
	}
	limit := a.info.cap.Timeout() + 500*time.Millisecond
	if err := a.awaitStatus(ctx, limit, "ready", wire.CSTS.RDY); err != nil {
		return err
	}
	v, err = a.propertyGet(ctx, wire.PropertyVS)
	a.info.vs = wire.Version(v)
	return err
}

func (a *association) identifyController(ctx context.Context) error {
	data, err := a.identify(ctx, wire.Identify{CNS: wire.CNSController})
	if err != nil {
		return err
	}
	id := &a.info.id
	if err := id.Parse(data); err != nil {
		return err
	}
	a.info.maxTransfer = transferLimit(id.MDTS, uint64(a.c.opts.MaxTransfer))
	if a.c.pool != nil { // of an earlier association
		a.info.maxTransfer = min(a.info.maxTransfer, uint64(a.c.pool.MaxBlock()))
	}
	if id.CNTLID != a.info.cntlid {
		return fmt.Errorf("the controller says it is %d, but it was connected as %d", id.CNTLID, a.info.cntlid)
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
func (a *association) checkController(ctx context.Context) error {
	id := &a.info.id
	switch {
	case id.CNTRLTYPE > wire.ControllerIO:
		return fmt.Errorf("controller type %d has no disks", id.CNTRLTYPE)
	case id.SGLS&wire.SGLSKeyed == 0:
		return fmt.Errorf("the controller has no keyed SGLs (SGLS 0x%x)", id.SGLS)
	case id.ICDOFF != 0:
		return fmt.Errorf("in-capsule data at an offset (ICDOFF %d) is not supported", id.ICDOFF)
	case id.IOCCSZ < wire.SQESize/16 || id.IORCSZ < wire.CQESize/16:
		return fmt.Errorf("capsules are too small for NVMe (IOCCSZ %d, IORCSZ %d)", id.IOCCSZ, id.IORCSZ)
	case id.KAS == 0 && a.c.opts.kato() != 0:
		return fmt.Errorf("the controller has no keep alive (KAS 0); connect without keep-alive timeout")
	}
	a.info.queueSize = min(a.c.opts.QueueSize, int(a.info.cap.MQES())+1)
	if id.MAXCMD > 0 {
		a.info.queueSize = min(a.info.queueSize, int(id.MAXCMD))
	}
	if a.info.queueSize < 2 {
		return fmt.Errorf("the controller's queues have %d entries, fewer than 2", a.info.queueSize)
	}
	if id.SGLS&wire.SGLSOffset != 0 {
		a.info.inCapsule = min(uint64(id.IOCCSZ)*16-wire.SQESize, maxInCapsule)
	}
	return a.identifyNVM(ctx)
}

// identifyNVM takes the limits of the NVM command set, which not every controller
// tells.
func (a *association) identifyNVM(ctx context.Context) error {
	a.info.maxZeroes, a.info.maxTrimBlocks = maxZeroesBytes, math.MaxUint32
	data, err := a.identify(ctx, wire.Identify{CNS: wire.CNSCSIController, CSI: wire.CSINVM})
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
	a.info.maxZeroes = transferLimit(nvm.WZSL, maxZeroesBytes)
	if nvm.DMRSL != 0 {
		a.info.maxTrimBlocks = uint64(nvm.DMRSL)
	}
	return nil
}
