package wire

import "fmt"

// OpcodeFabrics is the opcode of every Fabrics command, on the admin and the I/O queues; SQE.FabricsType says which.
const OpcodeFabrics uint8 = 0x7F

// AdminOpcode is the opcode of a command on the admin queue (NVMe Base, Opcodes for Admin Commands).
type AdminOpcode uint8

// The admin commands.
const (
	AdminDeleteIOSQ         AdminOpcode = 0x00
	AdminCreateIOSQ         AdminOpcode = 0x01
	AdminGetLogPage         AdminOpcode = 0x02
	AdminDeleteIOCQ         AdminOpcode = 0x04
	AdminCreateIOCQ         AdminOpcode = 0x05
	AdminIdentify           AdminOpcode = 0x06
	AdminAbort              AdminOpcode = 0x08
	AdminSetFeatures        AdminOpcode = 0x09
	AdminGetFeatures        AdminOpcode = 0x0A
	AdminAsyncEventRequest  AdminOpcode = 0x0C
	AdminNSManagement       AdminOpcode = 0x0D
	AdminFirmwareCommit     AdminOpcode = 0x10
	AdminFirmwareDownload   AdminOpcode = 0x11
	AdminDeviceSelfTest     AdminOpcode = 0x14
	AdminNSAttachment       AdminOpcode = 0x15
	AdminKeepAlive          AdminOpcode = 0x18
	AdminDirectiveSend      AdminOpcode = 0x19
	AdminDirectiveReceive   AdminOpcode = 0x1A
	AdminVirtualization     AdminOpcode = 0x1C
	AdminMISend             AdminOpcode = 0x1D
	AdminMIReceive          AdminOpcode = 0x1E
	AdminCapacityManagement AdminOpcode = 0x20
	AdminLockdown           AdminOpcode = 0x24
	AdminDoorbellConfig     AdminOpcode = 0x7C
	AdminFormatNVM          AdminOpcode = 0x80
	AdminSecuritySend       AdminOpcode = 0x81
	AdminSecurityReceive    AdminOpcode = 0x82
	AdminSanitize           AdminOpcode = 0x84
	AdminGetLBAStatus       AdminOpcode = 0x86
)

func (o AdminOpcode) String() string {
	switch o {
	case AdminDeleteIOSQ:
		return "delete i/o submission queue"
	case AdminCreateIOSQ:
		return "create i/o submission queue"
	case AdminGetLogPage:
		return "get log page"
	case AdminDeleteIOCQ:
		return "delete i/o completion queue"
	case AdminCreateIOCQ:
		return "create i/o completion queue"
	case AdminIdentify:
		return "identify"
	case AdminAbort:
		return "abort"
	case AdminSetFeatures:
		return "set features"
	case AdminGetFeatures:
		return "get features"
	case AdminAsyncEventRequest:
		return "asynchronous event request"
	case AdminNSManagement:
		return "namespace management"
	case AdminFirmwareCommit:
		return "firmware commit"
	case AdminFirmwareDownload:
		return "firmware image download"
	case AdminDeviceSelfTest:
		return "device self-test"
	case AdminNSAttachment:
		return "namespace attachment"
	case AdminKeepAlive:
		return "keep alive"
	case AdminDirectiveSend:
		return "directive send"
	case AdminDirectiveReceive:
		return "directive receive"
	case AdminVirtualization:
		return "virtualization management"
	case AdminMISend:
		return "nvme-mi send"
	case AdminMIReceive:
		return "nvme-mi receive"
	case AdminCapacityManagement:
		return "capacity management"
	case AdminLockdown:
		return "lockdown"
	case AdminDoorbellConfig:
		return "doorbell buffer config"
	case AdminOpcode(OpcodeFabrics):
		return "fabrics"
	case AdminFormatNVM:
		return "format nvm"
	case AdminSecuritySend:
		return "security send"
	case AdminSecurityReceive:
		return "security receive"
	case AdminSanitize:
		return "sanitize"
	case AdminGetLBAStatus:
		return "get lba status"
	}
	return fmt.Sprintf("admin opcode 0x%02x", uint8(o))
}

// IOOpcode is the opcode of a command on an I/O queue (NVM Command Set, Opcodes for NVM Commands).
type IOOpcode uint8

// The I/O commands.
const (
	IOFlush               IOOpcode = 0x00
	IOWrite               IOOpcode = 0x01
	IORead                IOOpcode = 0x02
	IOWriteUncorrectable  IOOpcode = 0x04
	IOCompare             IOOpcode = 0x05
	IOWriteZeroes         IOOpcode = 0x08
	IODSM                 IOOpcode = 0x09 // Dataset Management
	IOVerify              IOOpcode = 0x0C
	IOReservationRegister IOOpcode = 0x0D
	IOReservationReport   IOOpcode = 0x0E
	IOReservationAcquire  IOOpcode = 0x11
	IOReservationRelease  IOOpcode = 0x15
	IOCancel              IOOpcode = 0x18
	IOCopy                IOOpcode = 0x19
)

func (o IOOpcode) String() string {
	switch o {
	case IOFlush:
		return "flush"
	case IOWrite:
		return "write"
	case IORead:
		return "read"
	case IOWriteUncorrectable:
		return "write uncorrectable"
	case IOCompare:
		return "compare"
	case IOWriteZeroes:
		return "write zeroes"
	case IODSM:
		return "dataset management"
	case IOVerify:
		return "verify"
	case IOReservationRegister:
		return "reservation register"
	case IOReservationReport:
		return "reservation report"
	case IOReservationAcquire:
		return "reservation acquire"
	case IOReservationRelease:
		return "reservation release"
	case IOCancel:
		return "cancel"
	case IOCopy:
		return "copy"
	case IOOpcode(OpcodeFabrics):
		return "fabrics"
	}
	return fmt.Sprintf("i/o opcode 0x%02x", uint8(o))
}

// FabricsType is the Fabrics Command Type (NVMe Base, Fabrics Command Set).
type FabricsType uint8

// The Fabrics commands.
const (
	FabricsPropertySet FabricsType = 0x00
	FabricsConnect     FabricsType = 0x01
	FabricsPropertyGet FabricsType = 0x04
	FabricsAuthSend    FabricsType = 0x05
	FabricsAuthReceive FabricsType = 0x06
	FabricsDisconnect  FabricsType = 0x08
)

func (t FabricsType) String() string {
	switch t {
	case FabricsPropertySet:
		return "property set"
	case FabricsConnect:
		return "connect"
	case FabricsPropertyGet:
		return "property get"
	case FabricsAuthSend:
		return "authentication send"
	case FabricsAuthReceive:
		return "authentication receive"
	case FabricsDisconnect:
		return "disconnect"
	}
	return fmt.Sprintf("fabrics type 0x%02x", uint8(t))
}
