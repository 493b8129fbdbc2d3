package wire

// IdentifyNVMController is the Identify structure of a controller for the NVM command set, CNS 06h with CSI 0 (NVM Command Set). Reserved bytes are dropped
// by Parse and zero in Append.
type IdentifyNVMController struct {
	VSL   uint8 // Verify size limit: 2^VSL * 4 KiB; 0 for none
	WZSL  uint8 // Write Zeroes size limit: 2^WZSL * 4 KiB; 0 for none
	WUSL  uint8 // Write Uncorrectable size limit
	DMRL  uint8 // Dataset Management ranges limit; 0 for none
	DMRSL uint32
	DMSL  uint64
}

func (c *IdentifyNVMController) layout(l layout) {
	u8(l, 0, &c.VSL)
	u8(l, 1, &c.WZSL)
	u8(l, 2, &c.WUSL)
	u8(l, 3, &c.DMRL)
	u32(l, 4, &c.DMRSL)
	u64(l, 8, &c.DMSL)
}

// Parse decodes IdentifySize bytes.
func (c *IdentifyNVMController) Parse(b []byte) error {
	return parseFixed(c, "identify nvm controller data", b, IdentifySize)
}

// Append adds the structure to b.
func (c *IdentifyNVMController) Append(b []byte) []byte { return appendFixed(c, b, IdentifySize) }

// Bits of fields of IdentifyIndependentNamespace.
const (
	IndependentRotational uint8 = 1 << 4 // of NSFEAT
	IndependentNoVWC      uint8 = 1 << 5 // of NSFEAT: the namespace has no volatile write cache
	NSTATReady            uint8 = 1 << 0
)

// IdentifyIndependentNamespace is the Identify structure of a namespace that is the same in all I/O command sets, CNS 08h (NVMe Base). Reserved bytes are dropped
// by Parse and zero in Append.
type IdentifyIndependentNamespace struct {
	NSFEAT   uint8
	NMIC     uint8
	RESCAP   uint8
	FPI      uint8
	ANAGRPID uint32
	NSATTR   uint8
	NVMSETID uint16
	ENDGID   uint16
	NSTAT    uint8
}

func (n *IdentifyIndependentNamespace) layout(l layout) {
	u8(l, 0, &n.NSFEAT)
	u8(l, 1, &n.NMIC)
	u8(l, 2, &n.RESCAP)
	u8(l, 3, &n.FPI)
	u32(l, 4, &n.ANAGRPID)
	u8(l, 8, &n.NSATTR)
	u16(l, 10, &n.NVMSETID)
	u16(l, 12, &n.ENDGID)
	u8(l, 14, &n.NSTAT)
}

// Parse decodes IdentifySize bytes.
func (n *IdentifyIndependentNamespace) Parse(b []byte) error {
	return parseFixed(n, "identify independent namespace data", b, IdentifySize)
}

// Append adds the structure to b.
func (n *IdentifyIndependentNamespace) Append(b []byte) []byte {
	return appendFixed(n, b, IdentifySize)
}
