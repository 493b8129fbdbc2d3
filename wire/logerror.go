package wire

// ErrorLogEntrySize is the length in bytes of an entry of the Error Information log page.
const ErrorLogEntrySize = 64

// An ErrorLogEntry is one entry of the Error Information log page, 01h (NVMe Base). Reserved bytes are dropped by Parse and zero in Append.
type ErrorLogEntry struct {
	ErrorCount    uint64 // 0 for an entry that is not used
	SQID          uint16
	CID           uint16
	StatusField   uint16 // bits 15:1 status, bit 0 phase tag; see Status
	ErrorLocation uint16 // byte in bits 7:0 and bit in 10:8 of the command; 0xFFFF for none
	LBA           uint64
	NSID          uint32
	VendorInfo    uint8 // log page identifier of more information, 0 for none
	TRTYPE        TransportType
	CSI           CSI
	Opcode        uint8
	CommandInfo   uint64
	TransportInfo uint16
	LogVersion    uint8
}

// Status is the status that the command was answered with.
func (e *ErrorLogEntry) Status() Status { return Status(e.StatusField >> 1) }

// SetStatus sets the status that the command was answered with.
func (e *ErrorLogEntry) SetStatus(s Status) { e.StatusField = uint16(s) << 1 }

func (e *ErrorLogEntry) layout(l layout) {
	u64(l, 0, &e.ErrorCount)
	u16(l, 8, &e.SQID)
	u16(l, 10, &e.CID)
	u16(l, 12, &e.StatusField)
	u16(l, 14, &e.ErrorLocation)
	u64(l, 16, &e.LBA)
	u32(l, 24, &e.NSID)
	u8(l, 28, &e.VendorInfo)
	u8(l, 29, &e.TRTYPE)
	u8(l, 30, &e.CSI)
	u8(l, 31, &e.Opcode)
	u64(l, 32, &e.CommandInfo)
	u16(l, 40, &e.TransportInfo)
	u8(l, 63, &e.LogVersion)
}

// Parse decodes ErrorLogEntrySize bytes.
func (e *ErrorLogEntry) Parse(b []byte) error {
	return parseFixed(e, "error log entry", b, ErrorLogEntrySize)
}

// Append adds the entry to b.
func (e *ErrorLogEntry) Append(b []byte) []byte { return appendFixed(e, b, ErrorLogEntrySize) }
