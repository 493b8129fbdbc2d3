package wire

// NumberOfQueues is the value of feature 07h, in the command and in its answer.
type NumberOfQueues struct {
	NSQ uint16 // I/O submission queues, less one
	NCQ uint16 // I/O completion queues, less one
}

// QueuePairs is the value for n pairs of queues, 1 to 65535.
func QueuePairs(n uint16) NumberOfQueues { return NumberOfQueues{NSQ: n - 1, NCQ: n - 1} }

// ParseNumberOfQueues decodes dword 11, or dword 0 of the answer.
func ParseNumberOfQueues(dw uint32) NumberOfQueues {
	return NumberOfQueues{NSQ: uint16(dw), NCQ: uint16(dw >> 16)}
}

// DW encodes the value.
func (n NumberOfQueues) DW() uint32 { return uint32(n.NCQ)<<16 | uint32(n.NSQ) }

// Pairs is the number of queue pairs that the value allows, counted from one.
func (n NumberOfQueues) Pairs() int { return int(min(n.NSQ, n.NCQ)) + 1 }

// AsyncEventConfig is the value of feature 0Bh: the events that the controller may send. Its bits from 8 on are those of OAES (OAESNamespace and so on);
// bits 7:0 are the SMART critical warnings.
type AsyncEventConfig uint32

// Arbitration is the value of feature 01h.
type Arbitration struct {
	AB            uint8 // burst: log2 of the commands, 7 for no limit; 3 bits
	LPW, MPW, HPW uint8 // weights of low, medium and high priority, less one
}

// ParseArbitration decodes dword 11.
func ParseArbitration(dw uint32) Arbitration {
	return Arbitration{AB: uint8(dw & 7), LPW: uint8(dw >> 8), MPW: uint8(dw >> 16), HPW: uint8(dw >> 24)}
}

// DW encodes the value.
func (a Arbitration) DW() uint32 {
	return uint32(a.HPW)<<24 | uint32(a.MPW)<<16 | uint32(a.LPW)<<8 | uint32(a.AB&7)
}

// PowerManagement is the value of feature 02h.
type PowerManagement struct {
	PS uint8 // power state, 5 bits
	WH uint8 // workload hint, 3 bits
}

// ParsePowerManagement decodes dword 11.
func ParsePowerManagement(dw uint32) PowerManagement {
	return PowerManagement{PS: uint8(dw & 0x1F), WH: uint8(dw >> 5 & 7)}
}

// DW encodes the value.
func (p PowerManagement) DW() uint32 { return uint32(p.WH&7)<<5 | uint32(p.PS&0x1F) }

// TemperatureThreshold is the value of feature 04h.
type TemperatureThreshold struct {
	TMPTH  uint16 // in kelvins
	TMPSEL uint8  // sensor: 0 composite, 1 to 8 a sensor, 15 all; 4 bits
	THSEL  uint8  // 0 over, 1 under; 2 bits
}

// ParseTemperatureThreshold decodes dword 11.
func ParseTemperatureThreshold(dw uint32) TemperatureThreshold {
	return TemperatureThreshold{TMPTH: uint16(dw), TMPSEL: uint8(dw >> 16 & 0xF), THSEL: uint8(dw >> 20 & 3)}
}

// DW encodes the value.
func (t TemperatureThreshold) DW() uint32 {
	return uint32(t.THSEL&3)<<20 | uint32(t.TMPSEL&0xF)<<16 | uint32(t.TMPTH)
}

// ErrorRecovery is the value of feature 05h.
type ErrorRecovery struct {
	TLER  uint16 // time limited error recovery in units of 100 ms; 0 for no limit
	DULBE bool   // reading deallocated blocks is an error
}

// ParseErrorRecovery decodes dword 11.
func ParseErrorRecovery(dw uint32) ErrorRecovery {
	return ErrorRecovery{TLER: uint16(dw), DULBE: dw&(1<<16) != 0}
}

// DW encodes the value.
func (e ErrorRecovery) DW() uint32 {
	dw := uint32(e.TLER)
	if e.DULBE {
		dw |= 1 << 16
	}
	return dw
}

// NamespaceWriteProtect is the value of feature 84h.
type NamespaceWriteProtect uint8

// The states of write protection.
const (
	WriteProtectNone            NamespaceWriteProtect = 0
	WriteProtect                NamespaceWriteProtect = 1
	WriteProtectUntilPowerCycle NamespaceWriteProtect = 2
	WriteProtectPermanent       NamespaceWriteProtect = 3
)
