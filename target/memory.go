package target

import (
	"errors"
	"fmt"

	"rbd/verbs"
	"rbd/wire"
)

// queueMemory is a queue's registered memory: a receive buffer for each command
// that the host may have outstanding, and a response for each slot.
type queueMemory struct {
	mem   []byte
	mr    verbs.MR
	recvs []recvBuffer
	// stride is the length of a capsule, responses where the responses begin.
	stride    int
	responses int
}

type recvBuffer struct{ sge [1]verbs.SGE }

func newQueueMemory(pd verbs.PD, depth, slots, inCapsule int) (*queueMemory, error) {
	m := &queueMemory{stride: wire.SQESize + inCapsule, recvs: make([]recvBuffer, depth)}
	m.responses = depth * m.stride
	n := m.responses + slots*wire.CQESize
	mem, err := verbs.AllocMemory(n)
	if err != nil {
		return nil, fmt.Errorf("memory of a queue: %w", err)
	}
	if m.mr, err = pd.RegMR(mem, verbs.AccessLocalWrite); err != nil {
		return nil, errors.Join(fmt.Errorf("register the memory of a queue: %w", err), verbs.FreeMemory(mem))
	}
	m.mem = mem
	for i := range m.recvs {
		m.recvs[i].sge[0] = verbs.SGE{Addr: m.mr.Addr() + uint64(i*m.stride), Length: uint32(m.stride), LKey: m.mr.LKey()}
	}
	return m, nil
}

// capsule is receive buffer i.
func (m *queueMemory) capsule(i uint32) []byte {
	off := int(i) * m.stride
	return m.mem[off : off+m.stride : off+m.stride]
}

// response is the place for the answer of slot i.
func (m *queueMemory) response(i uint32) []byte {
	off := m.responses + int(i)*wire.CQESize
	return m.mem[off : off+wire.CQESize]
}

func (m *queueMemory) responseSGE(i uint32) verbs.SGE {
	return verbs.SGE{Addr: m.mr.Addr() + uint64(m.responses+int(i)*wire.CQESize), Length: wire.CQESize, LKey: m.mr.LKey()}
}

func (m *queueMemory) recvWR(i uint32) verbs.RecvWR {
	return verbs.RecvWR{ID: workID(workRecv, i), SGEs: m.recvs[i].sge[:]}
}

func (m *queueMemory) free() error { return errors.Join(m.mr.Dereg(), verbs.FreeMemory(m.mem)) }
