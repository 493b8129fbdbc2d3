package frame

import "fmt"

// Opcode is the RDMAP message type.
type Opcode uint8

// RDMAP opcodes (RFC 5040, figure 4).
const (
	OpWrite          Opcode = 0
	OpReadRequest    Opcode = 1
	OpReadResponse   Opcode = 2
	OpSend           Opcode = 3
	OpSendInv        Opcode = 4
	OpSendSE         Opcode = 5
	OpSendSEInv      Opcode = 6
	OpTerminate      Opcode = 7
	opcodeMask              = 0x000F
	firstUnknownCode        = OpTerminate + 1
)

var opcodeNames = [...]string{"RDMA Write", "RDMA Read Request", "RDMA Read Response", "Send",
	"Send with Invalidate", "Send with Solicited Event", "Send with Solicited Event and Invalidate", "Terminate"}

func (o Opcode) String() string {
	if o < firstUnknownCode {
		return opcodeNames[o]
	}
	return fmt.Sprintf("opcode %#x", uint8(o))
}

// Tagged says whether the opcode belongs to the tagged buffer model.
func (o Opcode) Tagged() bool { return o == OpWrite || o == OpReadResponse }

// Invalidates says whether the header carries an STag to invalidate.
func (o Opcode) Invalidates() bool { return o == OpSendInv || o == OpSendSEInv }

// Queue is the DDP queue number of an untagged opcode.
func (o Opcode) Queue() uint32 {
	switch o {
	case OpReadRequest:
		return QueueReadRequest
	case OpTerminate:
		return QueueTerminate
	}
	return QueueSend
}

// DDP queue numbers (RFC 5040, 4.1).
const (
	QueueSend        = 0
	QueueReadRequest = 1
	QueueTerminate   = 2
)

// Control is the word with the DDP and RDMAP control fields.
type Control uint16

const (
	controlTagged   Control = 0x8000
	controlLast     Control = 0x4000
	controlVersions Control = 0x0140 // DDP version 1, RDMAP version 1
)

func newControl(op Opcode, tagged, last bool) Control {
	c := controlVersions | Control(op)
	if tagged {
		c |= controlTagged
	}
	if last {
		c |= controlLast
	}
	return c
}

// Tagged is the T bit.
func (c Control) Tagged() bool { return c&controlTagged != 0 }

// Last is the L bit: the last segment of its message.
func (c Control) Last() bool { return c&controlLast != 0 }

// Opcode is the RDMAP opcode.
func (c Control) Opcode() Opcode { return Opcode(c & opcodeMask) }

// Check returns the error code for a wrong version or opcode, or for an opcode
// of the other buffer model. ok says that there is none.
func (c Control) Check() (code TermCode, ok bool) {
	switch {
	case c>>8&3 != 1 && c.Tagged():
		return TermTaggedVersion, false
	case c>>8&3 != 1:
		return TermUntaggedVersion, false
	case c>>6&3 != 1:
		return TermRDMAPVersion, false
	case c.Opcode() >= firstUnknownCode || c.Opcode().Tagged() != c.Tagged():
		return TermOpcode, false
	}
	return TermCode{}, true
}

// HeaderSize is the size of the header that the control word announces.
func (c Control) HeaderSize() int {
	switch {
	case c.Tagged():
		return TaggedSize
	case c.Opcode() == OpReadRequest:
		return ReadRequestSize
	}
	return UntaggedSize
}
