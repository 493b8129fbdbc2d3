package target

import (
	"errors"
	"testing"

	"rbd/verbs"
	"rbd/wire"
)

// TestRejects protects what a host is told when its connection request can't be
// accepted.
func TestRejects(t *testing.T) {
	e := newEnv(t, withConfig(func(c *Config) { c.QueueDepth = 64 }))
	good := func() wire.CMRequest { return wire.CMRequest{QID: 1, HRQSize: 16, HSQSize: 15} }
	for _, c := range []struct {
		name   string
		change func(*wire.CMRequest)
		length int
		ird    int
		want   wire.RejectReason
	}{
		{name: "no private data", length: 0, ird: 1, want: wire.RejectInvalidLength},
		{name: "short", length: 31, ird: 1, want: wire.RejectInvalidLength},
		{name: "format", change: func(r *wire.CMRequest) { r.RecFmt = 1 }, length: 32, ird: 1, want: wire.RejectInvalidRecFmt},
		{name: "one entry", change: func(r *wire.CMRequest) { r.HSQSize = 0 }, length: 32, ird: 1, want: wire.RejectInvalidHSQSize},
		{name: "too deep", change: func(r *wire.CMRequest) { r.HSQSize = 64 }, length: 32, ird: 1, want: wire.RejectInvalidHSQSize},
		{name: "all bits", change: func(r *wire.CMRequest) { r.HSQSize = 0xFFFF }, length: 32, ird: 1, want: wire.RejectInvalidHSQSize},
		{name: "admin too deep", change: func(r *wire.CMRequest) { r.QID, r.HSQSize = 0, 32 }, length: 32, ird: 1, want: wire.RejectInvalidHSQSize},
		{name: "no receives", change: func(r *wire.CMRequest) { r.HRQSize = 0 }, length: 32, ird: 1, want: wire.RejectInvalidHRQSize},
		{name: "no reads", length: 32, ird: 0, want: wire.RejectInvalidIRD},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := good()
			if c.change != nil {
				c.change(&r)
			}
			_, err := e.dialRaw(16, verbs.ConnParam{PrivateData: r.Append(nil)[:c.length], ResponderResources: c.ird})
			var reject *verbs.RejectError
			if !errors.As(err, &reject) {
				t.Fatalf("not rejected: %v", err)
			}
			var got wire.CMReject
			if err := got.Parse(reject.PrivateData); err != nil || got.Reason != c.want {
				t.Errorf("rejected with %v (%v), want %v", got.Reason, err, c.want)
			}
		})
	}
	r := good()
	q, err := e.dialRaw(16, verbs.ConnParam{PrivateData: append(r.Append(nil), make([]byte, 20)...), ResponderResources: 1})
	if err != nil {
		t.Fatalf("longer private data: %v", err)
	}
	var reply wire.CMReply
	if err := reply.Parse(q.reply.PrivateData); err != nil || reply.CRQSize != 16 {
		t.Errorf("reply %+v, %v", reply, err)
	}
}

// TestConnectErrors protects the status and the field that each wrong Connect is
// answered with, and that the connection can still be used for a right one.
func TestConnectErrors(t *testing.T) {
	e := newEnv(t, withConfig(func(c *Config) { c.IOQueues = 4 }), withPolicy(AccessPolicy{Hosts: []string{testHost}}))
	e.addRAM(1 << 20)
	_, cntlid := e.admin(testNQN)
	e.io(cntlid, 1, 16)
	const dnr = wire.StatusDNR
	for _, c := range []struct {
		name   string
		qid    uint16
		cmd    func(*wire.Connect)
		data   func(*wire.ConnectData)
		status wire.Status
		result uint32
	}{
		{name: "format", cmd: func(c *wire.Connect) { c.RecFmt = 1 }, status: wire.StatusConnectIncompatibleFormat | dnr},
		{name: "static controller", data: func(d *wire.ConnectData) { d.CNTLID = 1 }, status: statusInvalidParameters, result: 0x00010010},
		{name: "unknown subsystem", data: func(d *wire.ConnectData) { d.SubNQN = wire.MakeNQNField("nqn.2026-11.io.rbd:other") }, status: statusInvalidParameters, result: 0x00010100},
		{name: "endless name", data: func(d *wire.ConnectData) {
			for i := range d.SubNQN {
				d.SubNQN[i] = 'n'
			}
		}, status: statusInvalidParameters, result: 0x00010100},
		{name: "host not allowed", data: func(d *wire.ConnectData) { d.HostNQN = wire.MakeNQNField(testHost + "x") }, status: wire.StatusConnectInvalidHost | dnr, result: 0x00010200},
		{name: "no host", data: func(d *wire.ConnectData) { d.HostNQN = wire.NQNField{} }, status: statusInvalidParameters, result: 0x00010200},
		{name: "endless host", data: func(d *wire.ConnectData) {
			for i := range d.HostNQN {
				d.HostNQN[i] = 'n'
			}
		}, status: statusInvalidParameters, result: 0x00010200},
		{name: "size 0", cmd: func(c *wire.Connect) { c.SQSize = 0 }, status: statusInvalidParameters, result: 44},
		{name: "size beyond the connection's", cmd: func(c *wire.Connect) { c.SQSize = 16 }, status: statusInvalidParameters, result: 44},
		{name: "i/o on the admin connection", cmd: func(c *wire.Connect) { c.QID = 1 }, status: statusInvalidParameters, result: 42},
		{name: "queue beyond the limit", qid: 5, status: statusInvalidParameters, result: 42},
		{name: "size beyond MQES", qid: 2, cmd: func(c *wire.Connect) { c.SQSize = 128 }, status: statusInvalidParameters, result: 44},
		{name: "queue there already", qid: 1, status: statusSequenceError},
		{name: "unknown controller", qid: 2, data: func(d *wire.ConnectData) { d.CNTLID = cntlid + 1 }, status: statusInvalidParameters, result: 0x00010010},
		{name: "another host's controller", qid: 2, data: func(d *wire.ConnectData) { d.HostID[0]++ }, status: statusInvalidParameters, result: 0x00010010},
		{name: "i/o to an unknown subsystem", qid: 2, data: func(d *wire.ConnectData) { d.SubNQN = wire.MakeNQNField("x") }, status: statusInvalidParameters, result: 0x00010100},
		{name: "i/o to discovery", qid: 1, data: func(d *wire.ConnectData) { d.SubNQN = wire.MakeNQNField(wire.DiscoveryNQN) }, status: statusInvalidParameters, result: 42},
	} {
		t.Run(c.name, func(t *testing.T) {
			q, err := e.dial(c.qid, 16)
			if err != nil {
				t.Fatal(err)
			}
			cmd, data := wire.Connect{QID: c.qid, SQSize: 15}, connectData(wire.CNTLIDDynamic)
			if c.qid != 0 {
				data.CNTLID = cntlid
			}
			if c.cmd != nil {
				c.cmd(&cmd)
			}
			if c.data != nil {
				c.data(&data)
			}
			cqe := q.connect(cmd, data)
			if cqe.Status != c.status || cqe.DW0() != c.result || cqe.SQHD != 0 {
				t.Errorf("%v, result 0x%x, sqhd %d; want %v, 0x%x", cqe.Status, cqe.DW0(), cqe.SQHD, c.status, c.result)
			}
			if c.qid > 4 {
				return
			}
			good := wire.Connect{QID: c.qid, SQSize: 15}
			data = connectData(wire.CNTLIDDynamic)
			if c.qid != 0 {
				if c.qid == 1 {
					return
				}
				data.CNTLID = cntlid
			}
			if cqe := q.connect(good, data); !cqe.Status.OK() {
				t.Errorf("a right Connect after it: %v", cqe.Status)
			}
			q.close()
			e.gone(cntlid, c.qid)
		})
	}
}

// gone waits until the target has seen the end of an I/O queue.
func (e *env) gone(cntlid, qid uint16) {
	e.t.Helper()
	if qid == 0 {
		return
	}
	e.until("the queue is gone", func() bool {
		s := e.target.subsystem(testNQN)
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.controllers[cntlid].queues[qid] == nil
	})
}

// TestBeforeConnect protects a queue from commands that come before a Connect.
func TestBeforeConnect(t *testing.T) {
	e := newEnv(t)
	e.addRAM(1 << 20)
	for _, qid := range []uint16{0, 1} {
		q, err := e.dial(qid, 16)
		if err != nil {
			t.Fatal(err)
		}
		for _, sqe := range []wire.SQE{
			wire.NewPropertyGet(wire.PropertyCAP).SQE(), wire.KeepAliveSQE(), wire.FlushSQE(1), wire.DisconnectSQE(), wire.Identify{CNS: wire.CNSController}.SQE(),
		} {
			if cqe := q.do(sqe); cqe.Status != statusInvalidOpcode {
				t.Errorf("queue %d, opcode 0x%x: %v", qid, sqe.Opcode, cqe.Status)
			}
		}
	}
}

// TestBeforeEnable protects the order of a controller's life: no I/O queue and no
// admin command before CC.EN, and none after a reset.
func TestBeforeEnable(t *testing.T) {
	e := newEnv(t)
	e.addRAM(1 << 20)
	q, err := e.dial(0, 32)
	if err != nil {
		t.Fatal(err)
	}
	cqe := q.connect(wire.Connect{SQSize: 31}, connectData(wire.CNTLIDDynamic))
	if !cqe.Status.OK() {
		t.Fatal(cqe.Status)
	}
	cntlid := uint16(cqe.Result)
	if cqe := q.do(wire.KeepAliveSQE()); cqe.Status.Code() != wire.StatusCommandSequenceError {
		t.Errorf("keep alive: %v", cqe.Status)
	}
	early, err := e.dial(1, 16)
	if err != nil {
		t.Fatal(err)
	}
	if cqe := early.connect(wire.Connect{QID: 1, SQSize: 15}, connectData(cntlid)); cqe.Status != statusSequenceError {
		t.Errorf("i/o queue: %v", cqe.Status)
	}
	q.setCC(wire.MakeCC(0).WithEN(true))
	if cqe := early.connect(wire.Connect{QID: 1, SQSize: 15}, connectData(cntlid)); !cqe.Status.OK() {
		t.Fatalf("i/o queue after enabling: %v", cqe.Status)
	}
	early.must(wire.FlushSQE(1))
	if cqe := early.connect(wire.Connect{QID: 1, SQSize: 15}, connectData(cntlid)); cqe.Status.Code() != wire.StatusCommandSequenceError {
		t.Errorf("second Connect: %v", cqe.Status)
	}
	q.setCC(wire.MakeCC(0))
	if cqe := early.do(wire.FlushSQE(1)); cqe.Status.Code() != wire.StatusCommandSequenceError {
		t.Errorf("flush after a reset: %v", cqe.Status)
	}
}
