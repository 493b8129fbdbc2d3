package target

import (
	"bytes"
	"fmt"

	"rbd/wire"
)

// refusal is why a Connect is not accepted.
type refusal struct {
	status wire.Status
	// result is dword 0: for invalid parameters the field (IATTR, IPO).
	result uint32
	// why is for the log.
	why string
}

func refuse(status wire.Status, format string, args ...any) *refusal {
	return &refusal{status: status, why: fmt.Sprintf(format, args...)}
}

// at names the field that is not accepted.
func (r *refusal) at(inData bool, offset uint16) *refusal {
	r.result = wire.InvalidParameter{InData: inData, Offset: offset}.DW0()
	return r
}

const (
	statusInvalidParameters = wire.StatusConnectInvalidParameters | wire.StatusDNR
	// invalidField refuses a field of the command, invalidData one of the data.
	invalidField, invalidData = false, true
)

// connectRequest is a Connect as it came.
type connectRequest struct {
	cmd  wire.Connect
	data wire.ConnectData
	// at is where it came in; depth and qid are what the connection was made with.
	at    *endpoint
	depth int
	qid   uint16
}

func (q *connectRequest) host() hostKey {
	return hostKey{nqn: q.data.HostNQN.String(), id: q.data.HostID}
}

// connect executes a Connect: it binds b, a queue, to a new controller or to the
// one named. Of a new controller live says that its host has another one.
func (t *Target) connect(q *connectRequest, b *binding) (c *controller, live bool, no *refusal) {
	cmd, data := &q.cmd, &q.data
	if cmd.RecFmt != 0 {
		return nil, false, refuse(wire.StatusConnectIncompatibleFormat|wire.StatusDNR, "record format %d", cmd.RecFmt)
	}
	if cmd.QID == 0 && data.CNTLID != wire.CNTLIDDynamic {
		return nil, false, refuse(statusInvalidParameters, "controller %d asked for, controllers are dynamic", data.CNTLID).
			at(invalidData, wire.ConnectDataCNTLID)
	}
	sub := t.subsystem(data.SubNQN.String())
	if sub == nil {
		return nil, false, refuse(statusInvalidParameters, "there is no subsystem %q", data.SubNQN.String()).
			at(invalidData, wire.ConnectDataSubNQN)
	}
	if no := t.checkHost(q, sub); no != nil {
		return nil, false, no
	}
	if no := t.checkQueue(q, sub); no != nil {
		return nil, false, no
	}
	b.qid = cmd.QID
	if cmd.QID == 0 {
		c, live, err := sub.newController(q.host(), q.at, b)
		if err != nil {
			return nil, false, refuse(wire.StatusConnectControllerBusy, "%v", err)
		}
		return c, live, nil
	}
	c = sub.find(data.CNTLID, q.host())
	if c == nil {
		return nil, false, refuse(statusInvalidParameters, "the host has no controller %d", data.CNTLID).
			at(invalidData, wire.ConnectDataCNTLID)
	}
	if status := c.bind(b); !status.OK() {
		return nil, false, refuse(status, "queue %d of controller %d: %s", b.qid, c.cntlid, status.FabricsString())
	}
	return c, false, nil
}

// checkHost refuses hosts that may not use the subsystem. All may use discovery,
// where they see what they may use.
func (t *Target) checkHost(q *connectRequest, sub *subsystem) *refusal {
	nqn := &q.data.HostNQN
	if n := bytes.IndexByte(nqn[:], 0); n <= 0 || n > wire.MaxNQNLength {
		return refuse(statusInvalidParameters, "a host NQN of %d bytes", n).at(invalidData, wire.ConnectDataHostNQN)
	}
	if !sub.discovery && !q.at.policy.allows(nqn.String()) {
		why := "the host is not among those that are allowed here"
		if h := q.at.policy.alike(nqn.String()); h != "" {
			why += fmt.Sprintf("; %q is, and names are compared with case and blanks", h)
		}
		return refuse(wire.StatusConnectInvalidHost|wire.StatusDNR, "%s", why).at(invalidData, wire.ConnectDataHostNQN)
	}
	return nil
}

// checkQueue refuses queues that can't be.
func (t *Target) checkQueue(q *connectRequest, sub *subsystem) *refusal {
	most := t.cfg.IOQueues
	if sub.discovery {
		most = 0
	}
	entries := int(q.cmd.SQSize) + 1
	switch {
	case int(q.cmd.QID) > most:
		return refuse(statusInvalidParameters, "queue %d, there are at most %d", q.cmd.QID, most).at(invalidField, wire.ConnectQID)
	case q.cmd.QID != q.qid:
		return refuse(statusInvalidParameters, "queue %d on the connection of queue %d", q.cmd.QID, q.qid).at(invalidField, wire.ConnectQID)
	case entries < 2 || entries > q.depth:
		return refuse(statusInvalidParameters, "a queue of %d entries on a connection for %d", entries, q.depth).at(invalidField, wire.ConnectSQSize)
	}
	return nil
}
