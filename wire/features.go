package wire

import "fmt"

// FeatureID is a Feature Identifier.
type FeatureID uint8

// The features. Where a type is named, it is the feature's value in dword 11 or its data.
const (
	FeatureArbitration         FeatureID = 0x01 // Arbitration
	FeaturePowerManagement     FeatureID = 0x02 // PowerManagement
	FeatureTemperature         FeatureID = 0x04 // TemperatureThreshold
	FeatureErrorRecovery       FeatureID = 0x05 // ErrorRecovery
	FeatureVolatileWriteCache  FeatureID = 0x06 // bit 0: enabled
	FeatureNumberOfQueues      FeatureID = 0x07 // NumberOfQueues
	FeatureInterruptCoalescing FeatureID = 0x08
	FeatureInterruptVector     FeatureID = 0x09
	FeatureWriteAtomicity      FeatureID = 0x0A // bit 0: normal atomicity is not wanted
	FeatureAsyncEvents         FeatureID = 0x0B // AsyncEventConfig
	FeatureAutonomousPower     FeatureID = 0x0C
	FeatureHostMemoryBuffer    FeatureID = 0x0D
	FeatureTimestamp           FeatureID = 0x0E // data: Timestamp
	FeatureKeepAlive           FeatureID = 0x0F // milliseconds
	FeatureHostThermal         FeatureID = 0x10
	FeatureNonOperationalPower FeatureID = 0x11
	FeatureHostBehavior        FeatureID = 0x16 // data: HostBehavior
	FeatureCommandSetProfile   FeatureID = 0x19
	FeatureSoftwareProgress    FeatureID = 0x80
	FeatureHostID              FeatureID = 0x81 // data: 8 or 16 bytes
	FeatureReservationMask     FeatureID = 0x82
	FeatureReservationPersist  FeatureID = 0x83
	FeatureWriteProtect        FeatureID = 0x84 // NamespaceWriteProtect
)

func (f FeatureID) String() string {
	switch f {
	case FeatureArbitration:
		return "arbitration"
	case FeaturePowerManagement:
		return "power management"
	case FeatureTemperature:
		return "temperature threshold"
	case FeatureErrorRecovery:
		return "error recovery"
	case FeatureVolatileWriteCache:
		return "volatile write cache"
	case FeatureNumberOfQueues:
		return "number of queues"
	case FeatureInterruptCoalescing:
		return "interrupt coalescing"
	case FeatureInterruptVector:
		return "interrupt vector configuration"
	case FeatureWriteAtomicity:
		return "write atomicity"
	case FeatureAsyncEvents:
		return "asynchronous event configuration"
	case FeatureAutonomousPower:
		return "autonomous power state transition"
	case FeatureHostMemoryBuffer:
		return "host memory buffer"
	case FeatureTimestamp:
		return "timestamp"
	case FeatureKeepAlive:
		return "keep alive timer"
	case FeatureHostThermal:
		return "host controlled thermal management"
	case FeatureNonOperationalPower:
		return "non-operational power state"
	case FeatureHostBehavior:
		return "host behavior support"
	case FeatureCommandSetProfile:
		return "i/o command set profile"
	case FeatureSoftwareProgress:
		return "software progress marker"
	case FeatureHostID:
		return "host identifier"
	case FeatureReservationMask:
		return "reservation notification mask"
	case FeatureReservationPersist:
		return "reservation persistence"
	case FeatureWriteProtect:
		return "namespace write protection"
	}
	return fmt.Sprintf("feature 0x%02x", uint8(f))
}

// FeatureSelect says which value of a feature Get Features wants.
type FeatureSelect uint8

// The values.
const (
	SelectCurrent   FeatureSelect = 0
	SelectDefault   FeatureSelect = 1
	SelectSaved     FeatureSelect = 2
	SelectSupported FeatureSelect = 3 // capabilities of the feature
)

// A SetFeatures is the Set Features command (NVMe Base).
type SetFeatures struct {
	FID       FeatureID
	Save      bool // keep over resets
	NSID      uint32
	CDW11     uint32 // the value, or its first dword
	CDW12     uint32
	CDW13     uint32
	UUIDIndex uint8 // 7 bits
	CDW15     uint32
}

// ParseSetFeatures is the view of a Set Features command.
func ParseSetFeatures(s *SQE) SetFeatures {
	return SetFeatures{
		FID:       FeatureID(s.CDW10),
		Save:      s.CDW10&(1<<31) != 0,
		NSID:      s.NSID,
		CDW11:     s.CDW11,
		CDW12:     s.CDW12,
		CDW13:     s.CDW13,
		UUIDIndex: uint8(s.CDW14 & 0x7F),
		CDW15:     s.CDW15,
	}
}

// SQE is the command, without CID and SGL.
func (f SetFeatures) SQE() SQE {
	s := newSQE(uint8(AdminSetFeatures), f.NSID)
	s.CDW10 = uint32(f.FID)
	if f.Save {
		s.CDW10 |= 1 << 31
	}
	s.CDW11, s.CDW12, s.CDW13, s.CDW15 = f.CDW11, f.CDW12, f.CDW13, f.CDW15
	s.CDW14 = uint32(f.UUIDIndex & 0x7F)
	return s
}

// A GetFeatures is the Get Features command (NVMe Base).
type GetFeatures struct {
	FID       FeatureID
	Select    FeatureSelect
	NSID      uint32
	CDW11     uint32
	UUIDIndex uint8 // 7 bits
}

// ParseGetFeatures is the view of a Get Features command.
func ParseGetFeatures(s *SQE) GetFeatures {
	return GetFeatures{
		FID:       FeatureID(s.CDW10),
		Select:    FeatureSelect(s.CDW10 >> 8 & 7),
		NSID:      s.NSID,
		CDW11:     s.CDW11,
		UUIDIndex: uint8(s.CDW14 & 0x7F),
	}
}

// SQE is the command, without CID and SGL.
func (f GetFeatures) SQE() SQE {
	s := newSQE(uint8(AdminGetFeatures), f.NSID)
	s.CDW10 = uint32(f.Select&7)<<8 | uint32(f.FID)
	s.CDW11 = f.CDW11
	s.CDW14 = uint32(f.UUIDIndex & 0x7F)
	return s
}
