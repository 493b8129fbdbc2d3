package initiator

import (
	"context"
	"errors"
	"sync"
	"testing"

	"rbd/verbs"
	"rbd/wire"
)

// script is a controller whose answers a test writes: it is as conforming as the
// test wants. Its namespaces have no data: only admin commands, and flushes, are
// answered.
type script struct {
	t  *testing.T
	id wire.IdentifyController

	mu   sync.Mutex
	ns   map[uint32]*wire.IdentifyNamespace
	csts wire.CSTS
	// hook, if set, may answer a command itself. It returns the data for the host,
	// and the answer; nil lets the script go on, errSilence leaves it unanswered.
	hook func(qid uint16, s *wire.SQE) (data []byte, c *wire.CQE, err error)
	// events are the requests for asynchronous events that wait.
	events []func(wire.CQE)
	conns  []*scriptConn
}

var errSilence = errors.New("no answer")

// newScript makes a controller with one namespace of 1 MiB.
func newScript(t *testing.T) *script {
	s := &script{t: t, ns: map[uint32]*wire.IdentifyNamespace{1: blocks512(2048)}}
	s.id = wire.IdentifyController{
		CNTLID: 7, VER: wire.MakeVersion(1, 4, 0), CNTRLTYPE: wire.ControllerIO, KAS: 1, SQES: 0x66, CQES: 0x44,
		MAXCMD: 64, NN: 16, SGLS: wire.SGLSSupported | wire.SGLSKeyed | wire.SGLSOffset, IOCCSZ: 260, IORCSZ: 1,
		OAES: wire.OAESNamespace, SubNQN: wire.MakeNQNField(testNQN),
	}
	return s
}

func blocks512(n uint64) *wire.IdentifyNamespace {
	ns := &wire.IdentifyNamespace{NSZE: n, NCAP: n, NUSE: n}
	ns.LBAF[0].LBADS = 9
	return ns
}

// listen serves the controller at the address that it returns.
func (s *script) listen() verbs.Addr {
	var wg sync.WaitGroup
	s.t.Cleanup(func() { // after the listener is closed
		for _, c := range s.conns {
			c.stop()
		}
		wg.Wait()
	})
	return rdmaPeer(s.t, func(id verbs.CMID) {
		c, err := s.accept(id)
		if err != nil {
			s.t.Errorf("accept: %v", err)
			return
		}
		s.mu.Lock()
		s.conns = append(s.conns, c)
		s.mu.Unlock()
		wg.Go(c.serve)
	})
}

// event tells the host that something happened.
func (s *script) event(e wire.AsyncEvent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.events) == 0 {
		s.t.Error("the host does not wait for an event")
		return
	}
	s.events[0](wire.CQE{Result: uint64(e.DW0())})
	s.events = s.events[1:]
}

// scriptConn is one queue of the script.
type scriptConn struct {
	s         *script
	id        verbs.CMID
	qid       uint16
	qp        verbs.QP
	send, rcv verbs.CQ
	mem       []byte // 64 receives of 8 KiB, then 16 KiB of data, then a response
	mr        verbs.MR
	ctx       context.Context
	stop      context.CancelFunc
	sendMu    sync.Mutex
}

const (
	scriptRecv = 8192
	scriptData = 64 * scriptRecv
	scriptCQE  = scriptData + 16384
)

func (s *script) accept(id verbs.CMID) (*scriptConn, error) {
	c := &scriptConn{s: s, id: id}
	c.ctx, c.stop = context.WithCancel(context.Background())
	dev := id.Device()
	pd, err := dev.AllocPD()
	if err != nil {
		return nil, err
	}
	c.send, _ = dev.CreateCQ(verbs.CQAttr{Depth: 128})
	c.rcv, _ = dev.CreateCQ(verbs.CQAttr{Depth: 128})
	if c.mem, err = verbs.AllocMemory(scriptCQE + 4096); err != nil {
		return nil, err
	}
	if c.mr, err = pd.RegMR(c.mem, verbs.AccessLocalWrite|verbs.AccessRemoteWrite); err != nil {
		return nil, err
	}
	c.qp, err = id.CreateQP(pd, verbs.QPInitAttr{SendCQ: c.send, RecvCQ: c.rcv, Cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 64}})
	if err != nil {
		return nil, err
	}
	for i := range 64 {
		if err := c.repost(uint64(i)); err != nil {
			return nil, err
		}
	}
	var req wire.CMRequest
	if err := req.Parse(id.Request().PrivateData); err != nil {
		return nil, err
	}
	c.qid = req.QID
	reply := wire.CMReply{CRQSize: req.HSQSize + 1}
	_, err = id.Accept(c.ctx, verbs.ConnParam{PrivateData: reply.Append(nil), InitiatorDepth: 1})
	return c, err
}

func (c *scriptConn) repost(i uint64) error {
	return c.qp.PostRecv([]verbs.RecvWR{{ID: i, SGEs: []verbs.SGE{{Addr: c.mr.Addr() + i*scriptRecv, Length: scriptRecv, LKey: c.mr.LKey()}}}})
}

// serve answers commands, one after the other, until the connection ends.
func (c *scriptConn) serve() {
	defer func() {
		c.id.Destroy()
		c.mr.Dereg()
		verbs.FreeMemory(c.mem)
	}()
	go func() { // ends the waiting
		select {
		case <-c.id.Disconnected():
			c.stop()
		case <-c.ctx.Done():
		}
	}()
	defer c.stop()
	for {
		wc, ok := next(c.ctx, c.rcv)
		if !ok || wc.Status != verbs.WCSuccess {
			return
		}
		capsule := c.mem[wc.ID*scriptRecv:][:wc.ByteLen]
		var s wire.SQE
		if s.Parse(capsule[:wire.SQESize]) != nil {
			c.s.t.Error("capsule without an SQE")
			return
		}
		data := append([]byte(nil), capsule[wire.SQESize:]...)
		c.repost(wc.ID)
		c.command(&s, data)
	}
}

// next waits for a completion.
func next(ctx context.Context, cq verbs.CQ) (verbs.WC, bool) {
	var wc [1]verbs.WC
	for {
		cq.ReqNotify()
		if cq.Poll(wc[:]) == 1 {
			return wc[0], true
		}
		if cq.Wait(ctx) != nil {
			return wc[0], false
		}
	}
}

// post runs one send work request to its end.
func (c *scriptConn) post(wr verbs.SendWR) {
	wr.Flags |= verbs.SendSignaled
	if c.qp.PostSend([]verbs.SendWR{wr}) == nil {
		next(c.ctx, c.send)
	}
}

// respond sends data by RDMA WRITE and then the answer.
func (c *scriptConn) respond(s *wire.SQE, data []byte, q wire.CQE) {
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if n := min(len(data), int(s.SGL.Length)); n > 0 {
		copy(c.mem[scriptData:], data[:n])
		c.post(verbs.SendWR{
			Opcode: verbs.WRRDMAWrite, RemoteAddr: s.SGL.Addr, RKey: s.SGL.Key,
			SGEs: []verbs.SGE{{Addr: c.mr.Addr() + scriptData, Length: uint32(n), LKey: c.mr.LKey()}},
		})
	}
	q.CID = s.CID
	q.Put(c.mem[scriptCQE:])
	c.post(verbs.SendWR{Opcode: verbs.WRSend, SGEs: []verbs.SGE{{Addr: c.mr.Addr() + scriptCQE, Length: wire.CQESize, LKey: c.mr.LKey()}}})
}

func (c *scriptConn) command(s *wire.SQE, data []byte) {
	if hook := c.s.hook; hook != nil {
		data, q, err := hook(c.qid, s)
		if err != nil {
			return
		}
		if q != nil {
			c.respond(s, data, *q)
			return
		}
	}
	if s.Opcode != wire.OpcodeFabrics && s.Opcode == uint8(wire.AdminAsyncEventRequest) && c.qid == 0 {
		cmd := *s
		c.s.mu.Lock()
		c.s.events = append(c.s.events, func(q wire.CQE) { c.respond(&cmd, nil, q) })
		c.s.mu.Unlock()
		return
	}
	out, q := c.s.answer(s)
	c.respond(s, out, q)
}

// answer is what a conforming controller says.
func (s *script) answer(q *wire.SQE) (data []byte, c wire.CQE) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.Opcode == wire.OpcodeFabrics {
		return nil, s.fabrics(q)
	}
	switch wire.AdminOpcode(q.Opcode) {
	case wire.AdminIdentify:
		return s.identify(wire.ParseIdentify(q))
	case wire.AdminSetFeatures:
		f := wire.ParseSetFeatures(q)
		return nil, wire.CQE{Result: uint64(f.CDW11)}
	case wire.AdminGetLogPage:
		return make([]byte, wire.ParseGetLogPage(q).Bytes()), c
	case wire.AdminKeepAlive, wire.AdminOpcode(wire.IOFlush):
		return nil, c
	}
	return nil, wire.CQE{Status: wire.StatusInvalidOpcode.WithDNR()}
}

func (s *script) fabrics(q *wire.SQE) wire.CQE {
	switch q.FabricsType() {
	case wire.FabricsConnect:
		return wire.CQE{Result: uint64(wire.ConnectResult{CNTLID: 7}.DW0())}
	case wire.FabricsPropertyGet:
		switch wire.ParsePropertyGet(q).Offset {
		case wire.PropertyCAP:
			return wire.CQE{Result: uint64(wire.MakeCAP(127, 2, wire.CAPCSSNVM))}
		case wire.PropertyVS:
			return wire.CQE{Result: uint64(wire.MakeVersion(1, 4, 0))}
		case wire.PropertyCSTS:
			return wire.CQE{Result: uint64(s.csts)}
		}
	case wire.FabricsPropertySet:
		cc := wire.CC(wire.ParsePropertySet(q).Value)
		s.csts = 0
		if cc.EN() {
			s.csts = wire.CSTSRDY
		}
		if cc.SHN() != wire.ShutdownNone {
			s.csts = s.csts.WithSHST(wire.ShutdownComplete)
		}
	}
	return wire.CQE{}
}

func (s *script) identify(i wire.Identify) ([]byte, wire.CQE) {
	switch i.CNS {
	case wire.CNSController:
		return s.id.Append(nil), wire.CQE{}
	case wire.CNSActiveNamespaces:
		var list wire.NSList
		for nsid := i.NSID + 1; nsid <= s.id.NN; nsid++ {
			if s.ns[nsid] != nil {
				list = append(list, nsid)
			}
		}
		return list.Append(nil), wire.CQE{}
	case wire.CNSNamespace:
		if ns := s.ns[i.NSID]; ns != nil {
			return ns.Append(nil), wire.CQE{}
		}
		return make([]byte, wire.IdentifySize), wire.CQE{}
	case wire.CNSNamespaceDescriptors:
		d := wire.NSDescriptors{UUID: wire.UUID{1, byte(i.NSID)}}
		return d.Append(nil), wire.CQE{}
	}
	return nil, wire.CQE{Status: wire.StatusInvalidField.WithDNR()}
}
