package wire

import "fmt"

// LogID is a Log Page Identifier.
type LogID uint8

// The log pages.
const (
	LogSupportedPages   LogID = 0x00
	LogError            LogID = 0x01 // ErrorLogEntry each
	LogSmart            LogID = 0x02 // SmartLog
	LogFirmwareSlot     LogID = 0x03 // FirmwareSlotLog
	LogChangedNS        LogID = 0x04 // NSList
	LogCommandEffects   LogID = 0x05 // CommandEffectsLog
	LogDeviceSelfTest   LogID = 0x06
	LogTelemetryHost    LogID = 0x07
	LogTelemetryCtrl    LogID = 0x08
	LogEnduranceGroup   LogID = 0x09
	LogANA              LogID = 0x0C // ANALog
	LogPersistentEvents LogID = 0x0D
	LogDiscovery        LogID = 0x70 // DiscoveryLogHeader, then DiscoveryLogEntry each
	LogReservation      LogID = 0x80
	LogSanitize         LogID = 0x81
)

func (l LogID) String() string {
	switch l {
	case LogSupportedPages:
		return "supported log pages"
	case LogError:
		return "error information"
	case LogSmart:
		return "smart"
	case LogFirmwareSlot:
		return "firmware slot"
	case LogChangedNS:
		return "changed namespaces"
	case LogCommandEffects:
		return "command effects"
	case LogDeviceSelfTest:
		return "device self-test"
	case LogTelemetryHost:
		return "host telemetry"
	case LogTelemetryCtrl:
		return "controller telemetry"
	case LogEnduranceGroup:
		return "endurance group"
	case LogANA:
		return "asymmetric namespace access"
	case LogPersistentEvents:
		return "persistent events"
	case LogDiscovery:
		return "discovery"
	case LogReservation:
		return "reservation notification"
	case LogSanitize:
		return "sanitize status"
	}
	return fmt.Sprintf("log page 0x%02x", uint8(l))
}

// A GetLogPage is the command that reads a part of a log page (NVMe Base, Get Log Page).
type GetLogPage struct {
	NSID      uint32
	LID       LogID
	LSP       uint8  // log specific parameter, 7 bits
	RAE       bool   // retain asynchronous event: reading does not let the event be sent again
	NUMD      uint32 // dwords to transfer, less one
	LSI       uint16 // log specific identifier
	LPO       uint64 // log page offset, in bytes unless OT is set
	UUIDIndex uint8  // 7 bits
	OT        bool   // offset type: LPO is an index
	CSI       CSI
}

// NewGetLogPage asks for length bytes, a multiple of 4 from 4 on, at offset of a page, and keeps its event.
func NewGetLogPage(lid LogID, nsid uint32, offset uint64, length uint32) GetLogPage {
	return GetLogPage{NSID: nsid, LID: lid, RAE: true, NUMD: length/4 - 1, LPO: offset}
}

// ParseGetLogPage is the view of a Get Log Page command.
func ParseGetLogPage(s *SQE) GetLogPage {
	return GetLogPage{
		NSID:      s.NSID,
		LID:       LogID(s.CDW10),
		LSP:       uint8(s.CDW10 >> 8 & 0x7F),
		RAE:       s.CDW10&(1<<15) != 0,
		NUMD:      s.CDW11<<16 | s.CDW10>>16,
		LSI:       uint16(s.CDW11 >> 16),
		LPO:       uint64(s.CDW13)<<32 | uint64(s.CDW12),
		UUIDIndex: uint8(s.CDW14 & 0x7F),
		OT:        s.CDW14&(1<<23) != 0,
		CSI:       CSI(s.CDW14 >> 24),
	}
}

// SQE is the command, without CID and SGL.
func (g GetLogPage) SQE() SQE {
	s := newSQE(uint8(AdminGetLogPage), g.NSID)
	s.CDW10 = g.NUMD<<16 | uint32(g.LSP&0x7F)<<8 | uint32(g.LID)
	if g.RAE {
		s.CDW10 |= 1 << 15
	}
	s.CDW11 = uint32(g.LSI)<<16 | g.NUMD>>16
	s.CDW12, s.CDW13 = uint32(g.LPO), uint32(g.LPO>>32)
	s.CDW14 = uint32(g.CSI)<<24 | uint32(g.UUIDIndex&0x7F)
	if g.OT {
		s.CDW14 |= 1 << 23
	}
	return s
}

// Bytes is the length in bytes that the command transfers, 4 to 16 GiB: NUMD counts dwords from zero.
func (g GetLogPage) Bytes() uint64 { return (uint64(g.NUMD) + 1) * 4 }

// Window is the part of a page of size bytes that the command asks for: it begins at LPO and has at most n bytes; the transfer beyond it is undefined by
// the standard. It is not ok if LPO is an index, no multiple of 4, or behind the end. No value overflows.
func (g GetLogPage) Window(size uint64) (n uint64, ok bool) {
	if g.OT || g.LPO%4 != 0 || g.LPO > size {
		return 0, false
	}
	return min(g.Bytes(), size-g.LPO), true
}
