package wiretest

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// Opcode is an RDMAP opcode (RFC 5040 section 4).
type Opcode uint8

// The opcodes that the recordings have.
const (
	Write          Opcode = 0
	ReadRequest    Opcode = 1
	ReadResponse   Opcode = 2
	Send           Opcode = 3
	SendInvalidate Opcode = 4
	Terminate      Opcode = 7
)

func (o Opcode) String() string {
	switch o {
	case Write:
		return "write"
	case ReadRequest:
		return "read request"
	case ReadResponse:
		return "read response"
	case Send:
		return "send"
	case SendInvalidate:
		return "send with invalidate"
	case Terminate:
		return "terminate"
	}
	return fmt.Sprintf("opcode %d", uint8(o))
}

// A Message is one RDMAP message, put together from its segments.
type Message struct {
	From    Side
	Opcode  Opcode
	STag    uint32 // of the memory written (Write, ReadResponse), or to invalidate (SendInvalidate)
	TO      uint64 // of the first byte written
	MSN     uint32 // of an untagged message
	Payload []byte
	Read    Read // of a ReadRequest
}

// Read is the content of a Read Request.
type Read struct {
	SinkSTag, SourceSTag uint32
	SinkTO, SourceTO     uint64
	Size                 uint32
}

// reassemble makes messages of the FPDUs of both halves.
func reassemble(halves [2]Half) ([]Message, error) {
	type done struct {
		Message
		line int
	}
	var all []done
	for side := range halves {
		var partial [2]*Message // untagged and tagged: each may be unfinished while the other goes on
		for _, f := range halves[side].FPDUs {
			class := 0
			if f.Tagged {
				class = 1
			}
			m := partial[class]
			if m == nil {
				m = &Message{From: Side(side), Opcode: f.Opcode, STag: f.STag, TO: f.TO, MSN: f.MSN}
				partial[class] = m
			}
			if err := m.add(f); err != nil {
				return nil, fmt.Errorf("%s: line %d: %w", Side(side), f.Line, err)
			}
			if f.Last {
				all = append(all, done{Message: *m, line: f.Line})
				partial[class] = nil
			}
		}
	}
	slices.SortStableFunc(all, func(a, b done) int { return a.line - b.line })
	messages := make([]Message, len(all))
	for i := range all {
		messages[i] = all[i].Message
	}
	return messages, nil
}

// add checks that a segment is the next one of the message and takes its payload.
func (m *Message) add(f FPDU) error {
	switch {
	case f.Opcode != m.Opcode || f.STag != m.STag || f.MSN != m.MSN:
		return fmt.Errorf("%s segment in a %s", f.Opcode, m.Opcode)
	case f.Tagged && f.TO != m.TO+uint64(len(m.Payload)):
		return fmt.Errorf("%s segment has TO 0x%x, want 0x%x", f.Opcode, f.TO, m.TO+uint64(len(m.Payload)))
	case !f.Tagged && int(f.MO) != len(m.Payload):
		return fmt.Errorf("%s segment has MO %d, want %d", f.Opcode, f.MO, len(m.Payload))
	}
	m.Payload = append(m.Payload, f.Payload...)
	if f.Opcode != ReadRequest {
		return nil
	}
	if len(f.Payload) != 28 {
		return fmt.Errorf("read request of %d bytes", len(f.Payload))
	}
	m.Read = Read{
		SinkSTag:   binary.BigEndian.Uint32(f.Payload),
		SinkTO:     binary.BigEndian.Uint64(f.Payload[4:]),
		Size:       binary.BigEndian.Uint32(f.Payload[12:]),
		SourceSTag: binary.BigEndian.Uint32(f.Payload[16:]),
		SourceTO:   binary.BigEndian.Uint64(f.Payload[20:]),
	}
	return nil
}
