package wire

const powerStateSize = 32

// PowerState is a power state descriptor of Identify Controller (NVMe Base, Power State Descriptor).
type PowerState struct {
	MaxPower           uint16 // MP, in units of 10 mW, or of 0.1 mW with PowerStateScale
	Flags              uint8  // PowerStateScale, PowerStateNonOperational
	EntryLatency       uint32 // ENLAT in microseconds
	ExitLatency        uint32 // EXLAT in microseconds
	ReadThroughput     uint8  // RRT and the next three: relative, 0 is best
	ReadLatency        uint8
	WriteThroughput    uint8
	WriteLatency       uint8
	IdlePower          uint16
	IdlePowerScale     uint8 // bits 7:6
	ActivePower        uint16
	ActivePowerWorkScl uint8 // bits 7:6 scale, 2:0 workload
}

// The bits of PowerState.Flags.
const (
	PowerStateScale          = 1 << 0
	PowerStateNonOperational = 1 << 1
)

func (p *PowerState) layout(l layout) {
	u16(l, 0, &p.MaxPower)
	u8(l, 3, &p.Flags)
	u32(l, 4, &p.EntryLatency)
	u32(l, 8, &p.ExitLatency)
	u8(l, 12, &p.ReadThroughput)
	u8(l, 13, &p.ReadLatency)
	u8(l, 14, &p.WriteThroughput)
	u8(l, 15, &p.WriteLatency)
	u16(l, 16, &p.IdlePower)
	u8(l, 18, &p.IdlePowerScale)
	u16(l, 20, &p.ActivePower)
	u8(l, 22, &p.ActivePowerWorkScl)
}
