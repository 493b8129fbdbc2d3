package wire

// ConnectDataSize is the length in bytes of the data of a Connect command.
const ConnectDataSize = 1024

// The controller identifiers with a meaning of their own in ConnectData and the discovery log page.
const (
	CNTLIDDynamic = 0xFFFF // the target chooses a controller
	CNTLIDStatic  = 0xFFFE // any static controller
)

// Offsets of the fields of ConnectData, as an InvalidParameter names them.
const (
	ConnectDataHostID  = 0
	ConnectDataCNTLID  = 16
	ConnectDataSubNQN  = 256
	ConnectDataHostNQN = 512
)

// ConnectData says which host wants which controller of which subsystem (NVMe Base, Connect Command Data).
type ConnectData struct {
	HostID  UUID
	CNTLID  uint16 // CNTLIDDynamic on the admin queue; the controller's on the others
	SubNQN  NQNField
	HostNQN NQNField
}

func (d *ConnectData) layout(l layout) {
	octets(l, ConnectDataHostID, d.HostID[:])
	u16(l, ConnectDataCNTLID, &d.CNTLID)
	octets(l, ConnectDataSubNQN, d.SubNQN[:])
	octets(l, ConnectDataHostNQN, d.HostNQN[:])
}

// Parse decodes ConnectDataSize bytes.
func (d *ConnectData) Parse(b []byte) error {
	return parseFixed(d, "connect data", b, ConnectDataSize)
}

// Append adds the data to b.
func (d *ConnectData) Append(b []byte) []byte { return appendFixed(d, b, ConnectDataSize) }
