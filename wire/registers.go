package wire

import (
	"fmt"
	"time"
)

// bits is the field of width bits at bit pos of v.
func bits[T ~uint32 | ~uint64](v T, pos, width uint) T { return v >> pos & (1<<width - 1) }

// withBits is v with that field replaced by the low bits of field.
func withBits[T ~uint32 | ~uint64](v T, pos, width uint, field T) T {
	mask := T(1)<<width - 1
	return v&^(mask<<pos) | (field&mask)<<pos
}

// CAP is the Controller Capabilities property (NVMe Base, Offset 0h).
type CAP uint64

// The I/O command sets of CAP.CSS.
const (
	CAPCSSNVM   uint8 = 0x01 // NVM command set
	CAPCSSIOCS  uint8 = 0x40 // one or more I/O command sets, which Identify CNS 1Ch tells
	CAPCSSNoIOC uint8 = 0x80 // no I/O command set: admin only
)

// MakeCAP is the capabilities of a controller over fabrics: queues of at most mqes+1 entries, ready or shut down within to units of 500 ms, the command
// sets css. Contiguous queues are required, as fabrics demand.
func MakeCAP(mqes uint16, to, css uint8) CAP {
	c := CAP(mqes) | capCQR
	c = withBits(c, 24, 8, CAP(to))
	return withBits(c, 37, 8, CAP(css))
}

const capCQR CAP = 1 << 16

// MQES is the number of entries of the longest queue, less one.
func (c CAP) MQES() uint16 { return uint16(c) }

// CQR says that queues must be contiguous.
func (c CAP) CQR() bool { return c&capCQR != 0 }

// TO is the worst-case time to become ready, in units of 500 ms.
func (c CAP) TO() uint8 { return uint8(bits(c, 24, 8)) }

// Timeout is TO as a duration.
func (c CAP) Timeout() time.Duration { return time.Duration(c.TO()) * 500 * time.Millisecond }

// NSSRS says that an NVM subsystem reset is supported.
func (c CAP) NSSRS() bool { return bits(c, 36, 1) != 0 }

// CSS is the set of I/O command sets.
func (c CAP) CSS() uint8 { return uint8(bits(c, 37, 8)) }

// MPSMIN is the smallest memory page size, 2^(12+MPSMIN) bytes.
func (c CAP) MPSMIN() uint8 { return uint8(bits(c, 48, 4)) }

// MPSMAX is the largest memory page size, 2^(12+MPSMAX) bytes.
func (c CAP) MPSMAX() uint8 { return uint8(bits(c, 52, 4)) }

// CRMS is the set of controller ready modes: bit 0 with media, bit 1 independent of media.
func (c CAP) CRMS() uint8 { return uint8(bits(c, 59, 2)) }

// Version is the Version property VS and the field VER of Identify Controller.
type Version uint32

// MakeVersion is the version major.minor.tertiary.
func MakeVersion(major uint16, minor, tertiary uint8) Version {
	return Version(major)<<16 | Version(minor)<<8 | Version(tertiary)
}

// String is such as "1.4.0".
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v>>16, v>>8&0xFF, v&0xFF) }

// CC is the Controller Configuration property (NVMe Base, Offset 14h).
type CC uint32

// ShutdownNotification is CC.SHN.
type ShutdownNotification uint8

// The shutdown notifications.
const (
	ShutdownNone   ShutdownNotification = 0
	ShutdownNormal ShutdownNotification = 1
	ShutdownAbrupt ShutdownNotification = 2
)

func (s ShutdownNotification) String() string {
	switch s {
	case ShutdownNone:
		return "none"
	case ShutdownNormal:
		return "normal"
	case ShutdownAbrupt:
		return "abrupt"
	}
	return fmt.Sprintf("shutdown notification %d", uint8(s))
}

// The I/O command set selected by CC.CSS.
const (
	CCCSSNVM       uint8 = 0
	CCCSSAll       uint8 = 6
	CCCSSAdminOnly uint8 = 7
)

// MakeCC is the configuration with the entry sizes that NVMe over Fabrics has (64 bytes and 16 bytes), not enabled.
func MakeCC(css uint8) CC {
	return withBits(CC(6<<16|4<<20), 4, 3, CC(css))
}

// EN says that the controller is to be enabled.
func (c CC) EN() bool { return c&1 != 0 }

// WithEN is the configuration with EN set or cleared.
func (c CC) WithEN(on bool) CC {
	if on {
		return c | 1
	}
	return c &^ 1
}

// CSS is the I/O command set selected.
func (c CC) CSS() uint8 { return uint8(bits(c, 4, 3)) }

// MPS is the memory page size, 2^(12+MPS) bytes.
func (c CC) MPS() uint8 { return uint8(bits(c, 7, 4)) }

// AMS is the arbitration mechanism; 0 is round robin.
func (c CC) AMS() uint8 { return uint8(bits(c, 11, 3)) }

// SHN is the shutdown notification.
func (c CC) SHN() ShutdownNotification { return ShutdownNotification(bits(c, 14, 2)) }

// WithSHN is the configuration with that shutdown notification.
func (c CC) WithSHN(n ShutdownNotification) CC { return withBits(c, 14, 2, CC(n)) }

// IOSQES is log2 of the size in bytes of an entry of an I/O submission queue: 6.
func (c CC) IOSQES() uint8 { return uint8(bits(c, 16, 4)) }

// IOCQES is log2 of the size in bytes of an entry of an I/O completion queue: 4.
func (c CC) IOCQES() uint8 { return uint8(bits(c, 20, 4)) }

// CRIME says that the controller is ready independent of its media.
func (c CC) CRIME() bool { return bits(c, 24, 1) != 0 }

// CSTS is the Controller Status property (NVMe Base, Offset 1Ch).
type CSTS uint32

// ShutdownStatus is CSTS.SHST.
type ShutdownStatus uint8

// The shutdown states.
const (
	ShutdownNormalOperation ShutdownStatus = 0
	ShutdownOccurring       ShutdownStatus = 1
	ShutdownComplete        ShutdownStatus = 2
)

func (s ShutdownStatus) String() string {
	switch s {
	case ShutdownNormalOperation:
		return "normal operation"
	case ShutdownOccurring:
		return "occurring"
	case ShutdownComplete:
		return "complete"
	}
	return fmt.Sprintf("shutdown status %d", uint8(s))
}

// The flags of CSTS.
const (
	CSTSRDY   CSTS = 1 << 0 // ready
	CSTSCFS   CSTS = 1 << 1 // controller fatal status
	CSTSNSSRO CSTS = 1 << 4 // an NVM subsystem reset occurred
	CSTSPP    CSTS = 1 << 5 // processing paused
)

// RDY says that the controller is ready for commands.
func (c CSTS) RDY() bool { return c&CSTSRDY != 0 }

// CFS says that a fatal error happened, which only a reset mends.
func (c CSTS) CFS() bool { return c&CSTSCFS != 0 }

// SHST is the state of a shutdown.
func (c CSTS) SHST() ShutdownStatus { return ShutdownStatus(bits(c, 2, 2)) }

// WithSHST is the status with that shutdown state.
func (c CSTS) WithSHST(s ShutdownStatus) CSTS { return withBits(c, 2, 2, CSTS(s)) }
