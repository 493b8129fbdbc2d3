package wiretest

import (
	"fmt"

	"rbd/wire"
)

// An Exchange is one command and all that belongs to it. The SGL of the command says where its data was.
type Exchange struct {
	Capsule     []byte // as it was sent: the SQE and in-capsule data
	Command     wire.SQE
	DataOut     []byte // what the command took to the target, by RDMA READ or in its capsule
	DataIn      []byte // what the target wrote to the host's memory; as long as the SGL says when anything was written
	Written     uint64 // bytes that RDMA WRITEs placed in DataIn
	Answered    bool   // false for a command that was pending when the connection ended
	Response    wire.CQE
	RawResponse []byte
	Invalidated uint32 // the key that the response invalidated, or 0
}

// Exchanges puts commands, their data and their responses together, in the order of the commands.
func (s *Stream) Exchanges() ([]*Exchange, error) {
	t := tracker{pending: make(map[uint16]*Exchange)}
	for i := range s.Messages {
		m := &s.Messages[i]
		if err := t.take(m); err != nil {
			return nil, fmt.Errorf("message %d, a %s from the %s: %w", i, m.Opcode, m.From, err)
		}
	}
	return t.all, nil
}

type tracker struct {
	all     []*Exchange
	pending map[uint16]*Exchange // by CID
	reads   []Read               // not yet answered
}

func (t *tracker) take(m *Message) error {
	switch {
	case m.From == Host && m.Opcode == Send:
		return t.command(m.Payload)
	case m.From == Host && m.Opcode == ReadResponse:
		return t.readResponse(m)
	case m.From == Target && m.Opcode == ReadRequest:
		t.reads = append(t.reads, m.Read)
		return nil
	case m.From == Target && m.Opcode == Write:
		e, off, err := t.owner(m.STag, m.TO, len(m.Payload))
		if err != nil {
			return err
		}
		if e.DataIn == nil {
			e.DataIn = make([]byte, e.Command.SGL.Length)
		}
		e.Written += uint64(copy(e.DataIn[off:], m.Payload))
		return nil
	case m.From == Target && (m.Opcode == Send || m.Opcode == SendInvalidate):
		return t.response(m)
	}
	return fmt.Errorf("not of an NVMe queue")
}

func (t *tracker) command(capsule []byte) error {
	e := &Exchange{Capsule: capsule}
	if len(capsule) < wire.SQESize {
		return fmt.Errorf("command capsule of %d bytes", len(capsule))
	}
	if err := e.Command.Parse(capsule[:wire.SQESize]); err != nil {
		return err
	}
	if data := capsule[wire.SQESize:]; len(data) > 0 {
		e.DataOut = data
	}
	if t.pending[e.Command.CID] != nil {
		return fmt.Errorf("command identifier %d is in use", e.Command.CID)
	}
	t.pending[e.Command.CID] = e
	t.all = append(t.all, e)
	return nil
}

func (t *tracker) readResponse(m *Message) error {
	if len(t.reads) == 0 {
		return fmt.Errorf("nothing was asked for")
	}
	r := t.reads[0]
	t.reads = t.reads[1:]
	if r.SinkSTag != m.STag || r.SinkTO != m.TO || int(r.Size) != len(m.Payload) {
		return fmt.Errorf("answers another read request")
	}
	e, off, err := t.owner(r.SourceSTag, r.SourceTO, len(m.Payload))
	if err != nil {
		return err
	}
	if e.DataOut == nil {
		e.DataOut = make([]byte, e.Command.SGL.Length)
	}
	copy(e.DataOut[off:], m.Payload)
	return nil
}

// owner finds the command whose keyed SGL covers n bytes at that address.
func (t *tracker) owner(key uint32, addr uint64, n int) (*Exchange, uint64, error) {
	for _, e := range t.pending {
		sgl := &e.Command.SGL
		off := addr - sgl.Addr
		if sgl.Keyed() && sgl.Key == key && wire.InRange(off, uint32(n), uint64(sgl.Length)) {
			return e, off, nil
		}
	}
	return nil, 0, fmt.Errorf("no command has %d bytes at 0x%x with key 0x%x", n, addr, key)
}

func (t *tracker) response(m *Message) error {
	var cqe wire.CQE
	if err := cqe.Parse(m.Payload); err != nil {
		return err
	}
	e := t.pending[cqe.CID]
	if e == nil {
		return fmt.Errorf("no command has identifier %d", cqe.CID)
	}
	delete(t.pending, cqe.CID)
	e.Answered, e.Response, e.RawResponse = true, cqe, m.Payload
	if m.Opcode == SendInvalidate {
		e.Invalidated = m.STag
	}
	return nil
}
