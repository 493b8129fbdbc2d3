package wire

// SmartLogSize is the length in bytes of the SMART / Health Information log page.
const SmartLogSize = 512

// SmartLog is the SMART / Health Information log page, 02h (NVMe Base). Reserved bytes are dropped by Parse and zero in Append.
type SmartLog struct {
	CriticalWarning         uint8
	Temperature             uint16 // composite, in kelvins
	AvailableSpare          uint8  // in percent
	AvailableSpareThreshold uint8
	PercentageUsed          uint8
	EnduranceGroupWarning   uint8
	DataUnitsRead           Uint128 // in units of 512000 bytes
	DataUnitsWritten        Uint128
	HostReads               Uint128 // commands
	HostWrites              Uint128
	ControllerBusyTime      Uint128 // in minutes
	PowerCycles             Uint128
	PowerOnHours            Uint128
	UnsafeShutdowns         Uint128
	MediaErrors             Uint128
	ErrorLogEntries         Uint128 // over the life of the controller
	WarningTemperatureTime  uint32  // in minutes
	CriticalTemperatureTime uint32
	TemperatureSensors      [8]uint16
	ThermalT1Transitions    uint32
	ThermalT2Transitions    uint32
	ThermalT1Time           uint32 // in seconds
	ThermalT2Time           uint32
}

func (s *SmartLog) layout(l layout) {
	u8(l, 0, &s.CriticalWarning)
	u16(l, 1, &s.Temperature)
	u8(l, 3, &s.AvailableSpare)
	u8(l, 4, &s.AvailableSpareThreshold)
	u8(l, 5, &s.PercentageUsed)
	u8(l, 6, &s.EnduranceGroupWarning)
	u128(l, 32, &s.DataUnitsRead)
	u128(l, 48, &s.DataUnitsWritten)
	u128(l, 64, &s.HostReads)
	u128(l, 80, &s.HostWrites)
	u128(l, 96, &s.ControllerBusyTime)
	u128(l, 112, &s.PowerCycles)
	u128(l, 128, &s.PowerOnHours)
	u128(l, 144, &s.UnsafeShutdowns)
	u128(l, 160, &s.MediaErrors)
	u128(l, 176, &s.ErrorLogEntries)
	u32(l, 192, &s.WarningTemperatureTime)
	u32(l, 196, &s.CriticalTemperatureTime)
	for i := range s.TemperatureSensors {
		u16(l, 200+2*i, &s.TemperatureSensors[i])
	}
	u32(l, 216, &s.ThermalT1Transitions)
	u32(l, 220, &s.ThermalT2Transitions)
	u32(l, 224, &s.ThermalT1Time)
	u32(l, 228, &s.ThermalT2Time)
}

// Parse decodes SmartLogSize bytes.
func (s *SmartLog) Parse(b []byte) error {
	return parseFixed(s, "smart log page", b, SmartLogSize)
}

// Append adds the page to b.
func (s *SmartLog) Append(b []byte) []byte { return appendFixed(s, b, SmartLogSize) }
