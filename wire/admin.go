package wire

import "fmt"

// AsyncEventType is the type of an asynchronous event.
type AsyncEventType uint8

// The types.
const (
	AsyncError     AsyncEventType = 0
	AsyncSmart     AsyncEventType = 1
	AsyncNotice    AsyncEventType = 2
	AsyncImmediate AsyncEventType = 3
	AsyncIOCommand AsyncEventType = 6
	AsyncVendor    AsyncEventType = 7
)

func (t AsyncEventType) String() string {
	switch t {
	case AsyncError:
		return "error"
	case AsyncSmart:
		return "smart"
	case AsyncNotice:
		return "notice"
	case AsyncImmediate:
		return "immediate"
	case AsyncIOCommand:
		return "i/o command set"
	case AsyncVendor:
		return "vendor specific"
	}
	return fmt.Sprintf("event type %d", uint8(t))
}

// The information of notices, the values of AsyncEvent.Info when Type is AsyncNotice.
const (
	NoticeNamespaceChanged uint8 = 0x00
	NoticeFirmwareStarting uint8 = 0x01
	NoticeANAChange        uint8 = 0x03
	NoticeDiscoveryChanged uint8 = 0xF0
)

// An AsyncEvent is dword 0 of the answer to an Asynchronous Event Request (NVMe Base).
type AsyncEvent struct {
	Type AsyncEventType // 3 bits
	Info uint8
	LID  LogID // the page that tells more, and whose reading lets the next event of the type be sent
}

// NamespaceChanged is the event that a namespace appeared, went away or has other attributes.
func NamespaceChanged() AsyncEvent {
	return AsyncEvent{Type: AsyncNotice, Info: NoticeNamespaceChanged, LID: LogChangedNS}
}

// DiscoveryChanged is the event that the Discovery log page has changed.
func DiscoveryChanged() AsyncEvent {
	return AsyncEvent{Type: AsyncNotice, Info: NoticeDiscoveryChanged, LID: LogDiscovery}
}

// ANAChanged is the event that the state of access to a namespace has changed.
func ANAChanged() AsyncEvent {
	return AsyncEvent{Type: AsyncNotice, Info: NoticeANAChange, LID: LogANA}
}

// ParseAsyncEvent decodes dword 0.
func ParseAsyncEvent(dw0 uint32) AsyncEvent {
	return AsyncEvent{Type: AsyncEventType(dw0 & 7), Info: uint8(dw0 >> 8), LID: LogID(dw0 >> 16)}
}

// DW0 encodes the event.
func (e AsyncEvent) DW0() uint32 {
	return uint32(e.LID)<<16 | uint32(e.Info)<<8 | uint32(e.Type&7)
}

func (e AsyncEvent) String() string {
	switch e {
	case NamespaceChanged():
		return "namespace attribute changed"
	case DiscoveryChanged():
		return "discovery log page changed"
	case ANAChanged():
		return "asymmetric namespace access changed"
	}
	return fmt.Sprintf("%s event, info 0x%02x, %s log page", e.Type, e.Info, e.LID)
}

// AsyncEventRequestSQE is an Asynchronous Event Request, without CID.
func AsyncEventRequestSQE() SQE { return newSQE(uint8(AdminAsyncEventRequest), 0) }

// KeepAliveSQE is a Keep Alive command, without CID.
func KeepAliveSQE() SQE { return newSQE(uint8(AdminKeepAlive), 0) }

// An Abort is the command that asks to abort another. Bit 0 of dword 0 of the answer is 1 if it was not aborted.
type Abort struct {
	SQID uint16
	CID  uint16
}

// ParseAbort is the view of an Abort command.
func ParseAbort(s *SQE) Abort {
	return Abort{SQID: uint16(s.CDW10), CID: uint16(s.CDW10 >> 16)}
}

// SQE is the command, without its own CID.
func (a Abort) SQE() SQE {
	s := newSQE(uint8(AdminAbort), 0)
	s.CDW10 = uint32(a.CID)<<16 | uint32(a.SQID)
	return s
}
