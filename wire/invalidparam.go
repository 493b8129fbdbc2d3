package wire

import "fmt"

// Offsets of the fields of a Connect command in its SQE, as an InvalidParameter names them.
const (
	ConnectRecFmt = 40
	ConnectQID    = 42
	ConnectSQSize = 44
	ConnectCAttr  = 46
	ConnectKATO   = 48
)

// An InvalidParameter is dword 0 of a Connect that failed with Connect Invalid Parameters or Connect Invalid Host: it names the field that the target
// did not accept (NVMe Base, Connect Response).
type InvalidParameter struct {
	InData bool   // IATTR: the offset is in the ConnectData, not in the SQE
	Offset uint16 // IPO: offset in bytes
}

// ParseInvalidParameter decodes dword 0.
func ParseInvalidParameter(dw0 uint32) InvalidParameter {
	return InvalidParameter{InData: dw0&(1<<16) != 0, Offset: uint16(dw0)}
}

// DW0 encodes the parameter.
func (p InvalidParameter) DW0() uint32 {
	dw0 := uint32(p.Offset)
	if p.InData {
		dw0 |= 1 << 16
	}
	return dw0
}

// String names the field, such as "subsystem NQN in the connect data".
func (p InvalidParameter) String() string {
	place := "in the connect command"
	if p.InData {
		place = "in the connect data"
	}
	if field := p.field(); field != "" {
		return field + " " + place
	}
	return fmt.Sprintf("byte %d %s", p.Offset, place)
}

func (p InvalidParameter) field() string {
	if p.InData {
		switch p.Offset {
		case ConnectDataHostID:
			return "host identifier"
		case ConnectDataCNTLID:
			return "controller identifier"
		case ConnectDataSubNQN:
			return "subsystem NQN"
		case ConnectDataHostNQN:
			return "host NQN"
		}
		return ""
	}
	switch p.Offset {
	case ConnectRecFmt:
		return "record format"
	case ConnectQID:
		return "queue identifier"
	case ConnectSQSize:
		return "submission queue size"
	case ConnectCAttr:
		return "connect attributes"
	case ConnectKATO:
		return "keep alive timeout"
	}
	return ""
}
