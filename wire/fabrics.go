package wire

// newSQE begins a command: SGLs for data, which are all that NVMe over Fabrics has, and none yet.
func newSQE(opcode uint8, nsid uint32) SQE {
	return SQE{Opcode: opcode, Flags: FlagsPSDTSGL, NSID: nsid, SGL: NoDataSGL()}
}

// fabricsSQE begins a Fabrics command, which has its type where others have NSID.
func fabricsSQE(t FabricsType) SQE { return newSQE(OpcodeFabrics, uint32(t)) }

// A Connect is the Fabrics command that binds a queue to a controller (NVMe Base, Connect Command). Its data is ConnectData.
type Connect struct {
	RecFmt uint16 // record format; 0
	QID    uint16 // 0 for the admin queue
	SQSize uint16 // entries of the submission queue less one
	CAttr  uint8  // ConnectPriority and ConnectDisableSQFlow
	KATO   uint32 // keep alive timeout in milliseconds; 0 disables it
}

// The fields of Connect.CAttr.
const (
	ConnectPriority      uint8 = 0x03 // priority class of an I/O queue
	ConnectDisableSQFlow uint8 = 0x04 // the host wants no submission queue flow control
)

// ParseConnect is the view of a Connect command.
func ParseConnect(s *SQE) Connect {
	return Connect{
		RecFmt: uint16(s.CDW10),
		QID:    uint16(s.CDW10 >> 16),
		SQSize: uint16(s.CDW11),
		CAttr:  uint8(s.CDW11 >> 16),
		KATO:   s.CDW12,
	}
}

// SQE is the command, without CID and SGL.
func (c Connect) SQE() SQE {
	s := fabricsSQE(FabricsConnect)
	s.CDW10 = uint32(c.QID)<<16 | uint32(c.RecFmt)
	s.CDW11 = uint32(c.CAttr)<<16 | uint32(c.SQSize)
	s.CDW12 = c.KATO
	return s
}

// ConnectResult is dword 0 of the answer to a successful Connect.
type ConnectResult struct {
	CNTLID uint16 // controller identifier
	ATR    bool   // authentication transaction required
	ASCR   bool   // authentication and secure channel required
}

const (
	connectATR  = 1 << 17
	connectASCR = 1 << 18
)

// ParseConnectResult decodes dword 0.
func ParseConnectResult(dw0 uint32) ConnectResult {
	return ConnectResult{CNTLID: uint16(dw0), ATR: dw0&connectATR != 0, ASCR: dw0&connectASCR != 0}
}

// DW0 encodes the result.
func (r ConnectResult) DW0() uint32 {
	dw0 := uint32(r.CNTLID)
	if r.ATR {
		dw0 |= connectATR
	}
	if r.ASCR {
		dw0 |= connectASCR
	}
	return dw0
}

// DisconnectSQE is the Fabrics Disconnect command of an I/O queue (NVMe Base, Disconnect Command), without CID; its record format is 0.
func DisconnectSQE() SQE { return fabricsSQE(FabricsDisconnect) }

// DisconnectRecFmt is the record format of a Disconnect command, which must be 0.
func DisconnectRecFmt(s *SQE) uint16 { return uint16(s.CDW10) }
