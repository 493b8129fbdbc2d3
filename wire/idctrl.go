package wire

import "fmt"

// ControllerType is the field CNTRLTYPE of Identify Controller.
type ControllerType uint8

// The controller types.
const (
	ControllerNotReported ControllerType = 0
	ControllerIO          ControllerType = 1
	ControllerDiscovery   ControllerType = 2
	ControllerAdmin       ControllerType = 3
)

func (t ControllerType) String() string {
	switch t {
	case ControllerNotReported:
		return "not reported"
	case ControllerIO:
		return "i/o"
	case ControllerDiscovery:
		return "discovery"
	case ControllerAdmin:
		return "administrative"
	}
	return fmt.Sprintf("controller type %d", uint8(t))
}

// Bits of fields of Identify Controller.
const (
	CMICMultiPort        uint8  = 1 << 0
	CMICMultiController  uint8  = 1 << 1
	CMICANA              uint8  = 1 << 3
	OAESNamespace        uint32 = 1 << 8
	OAESFirmware         uint32 = 1 << 9
	OAESANA              uint32 = 1 << 11
	OAESDiscovery        uint32 = 1 << 31
	CTRATTHostID128      uint32 = 1 << 0
	CTRATTTBKAS          uint32 = 1 << 6 // traffic based keep alive
	CTRATTELBAS          uint32 = 1 << 15
	LPASmartPerNS        uint8  = 1 << 0
	LPACommandEffects    uint8  = 1 << 1
	LPAExtendedData      uint8  = 1 << 2 // Get Log Page has an offset
	ONCSCompare          uint16 = 1 << 0
	ONCSDSM              uint16 = 1 << 2
	ONCSWriteZeroes      uint16 = 1 << 3
	ONCSSaveSelect       uint16 = 1 << 4
	ONCSReservations     uint16 = 1 << 5
	ONCSTimestamp        uint16 = 1 << 6
	ONCSVerify           uint16 = 1 << 7
	VWCPresent           uint8  = 1 << 0
	VWCFlushAllNo        uint8  = 2 << 1 // Flush does not take NSIDAll
	VWCFlushAllYes       uint8  = 3 << 1 // Flush takes NSIDAll
	SGLSSupported        uint32 = 1 << 0
	SGLSDwordAligned     uint32 = 2 << 0
	SGLSKeyed            uint32 = 1 << 2
	SGLSOffset           uint32 = 1 << 20 // in-capsule data
	CTRATTRStatic        uint8  = 1 << 0  // static controller model
	DiscoveryTypeDirect  uint8  = 1
	DiscoveryTypeCentral uint8  = 2
)

// IdentifyController is the Identify structure of a controller, CNS 01h (NVMe Base, Identify Controller Data Structure). Reserved and
// vendor specific bytes are dropped by Parse and zero in Append.
type IdentifyController struct {
	VID, SSVID       uint16
	SN               [20]byte // serial number; ASCII, see Text and PutText
	MN               [40]byte // model number; ASCII
	FR               [8]byte  // firmware revision; ASCII
	RAB              uint8
	IEEE             [3]byte
	CMIC             uint8
	MDTS             uint8 // maximum data transfer is 2^MDTS * 4 KiB; 0 for no limit
	CNTLID           uint16
	VER              Version
	RTD3R, RTD3E     uint32
	OAES             uint32 // optional asynchronous events supported
	CTRATT           uint32
	RRLS             uint16
	CNTRLTYPE        ControllerType
	FGUID            UUID
	CRDT1            uint16 // command retry delay times in units of 100 ms
	CRDT2, CRDT3     uint16
	NVMSR, VWCI, MEC uint8

	OACS           uint16
	ACL            uint8 // abort command limit, less one
	AERL           uint8 // asynchronous event request limit, less one
	FRMW           uint8
	LPA            uint8
	ELPE           uint8 // error log page entries, less one
	NPSS           uint8
	AVSCC, APSTA   uint8
	WCTEMP, CCTEMP uint16
	MTFA           uint16
	HMPRE, HMMIN   uint32
	TNVMCAP        Uint128
	UNVMCAP        Uint128
	RPMBS          uint32
	EDSTT          uint16
	DSTO, FWUG     uint8
	KAS            uint16 // keep alive granularity in units of 100 ms; 0 for no keep alive
	HCTMA          uint16
	MNTMT, MXTMT   uint16
	SANICAP        uint32
	HMMINDS        uint32
	HMMAXD         uint16
	NSETIDMAX      uint16
	ENDGIDMAX      uint16
	ANATT, ANACAP  uint8
	ANAGRPMAX      uint32
	NANAGRPID      uint32
	PELS           uint32
	DomainID       uint16
	MEGCAP         Uint128

	SQES, CQES uint8  // log2 sizes of queue entries: required in the low, maximum in the high nibble
	MAXCMD     uint16 // commands outstanding at once per queue
	NN         uint32 // largest namespace identifier, or number of namespaces
	ONCS       uint16
	FUSES      uint16
	FNA        uint8
	VWC        uint8
	AWUN       uint16 // atomic write units in blocks, less one
	AWUPF      uint16
	ICSVSCC    uint8
	NWPC       uint8
	ACWU       uint16
	OCFS       uint16
	SGLS       uint32
	MNAN       uint32 // maximum number of allowed namespaces
	MAXDNA     Uint128
	MAXCNA     uint32
	SubNQN     NQNField

	IOCCSZ  uint32 // I/O command capsule size in units of 16 bytes
	IORCSZ  uint32 // I/O response capsule size in units of 16 bytes
	ICDOFF  uint16 // in-capsule data offset in units of 16 bytes
	CTRATTR uint8  // FCATT of later versions
	MSDBD   uint8  // maximum SGL data block descriptors
	OFCS    uint16
	DCTYPE  uint8

	PSD [32]PowerState
}

func (c *IdentifyController) layout(l layout) {
	u16(l, 0, &c.VID)
	u16(l, 2, &c.SSVID)
	octets(l, 4, c.SN[:])
	octets(l, 24, c.MN[:])
	octets(l, 64, c.FR[:])
	u8(l, 72, &c.RAB)
	octets(l, 73, c.IEEE[:])
	u8(l, 76, &c.CMIC)
	u8(l, 77, &c.MDTS)
	u16(l, 78, &c.CNTLID)
	u32(l, 80, &c.VER)
	u32(l, 84, &c.RTD3R)
	u32(l, 88, &c.RTD3E)
	u32(l, 92, &c.OAES)
	u32(l, 96, &c.CTRATT)
	u16(l, 100, &c.RRLS)
	u8(l, 111, &c.CNTRLTYPE)
	octets(l, 112, c.FGUID[:])
	u16(l, 128, &c.CRDT1)
	u16(l, 130, &c.CRDT2)
	u16(l, 132, &c.CRDT3)
	u8(l, 253, &c.NVMSR)
	u8(l, 254, &c.VWCI)
	u8(l, 255, &c.MEC)
	c.adminLayout(l)
	c.nvmLayout(l)
	c.fabricsLayout(l)
	for i := range c.PSD {
		at := 2048 + i*powerStateSize
		c.PSD[i].layout(layout{b: l.b[at : at+powerStateSize], encode: l.encode})
	}
}

// adminLayout is bytes 256 to 511: admin command set attributes.
func (c *IdentifyController) adminLayout(l layout) {
	u16(l, 256, &c.OACS)
	u8(l, 258, &c.ACL)
	u8(l, 259, &c.AERL)
	u8(l, 260, &c.FRMW)
	u8(l, 261, &c.LPA)
	u8(l, 262, &c.ELPE)
	u8(l, 263, &c.NPSS)
	u8(l, 264, &c.AVSCC)
	u8(l, 265, &c.APSTA)
	u16(l, 266, &c.WCTEMP)
	u16(l, 268, &c.CCTEMP)
	u16(l, 270, &c.MTFA)
	u32(l, 272, &c.HMPRE)
	u32(l, 276, &c.HMMIN)
	u128(l, 280, &c.TNVMCAP)
	u128(l, 296, &c.UNVMCAP)
	u32(l, 312, &c.RPMBS)
	u16(l, 316, &c.EDSTT)
	u8(l, 318, &c.DSTO)
	u8(l, 319, &c.FWUG)
	u16(l, 320, &c.KAS)
	u16(l, 322, &c.HCTMA)
	u16(l, 324, &c.MNTMT)
	u16(l, 326, &c.MXTMT)
	u32(l, 328, &c.SANICAP)
	u32(l, 332, &c.HMMINDS)
	u16(l, 336, &c.HMMAXD)
	u16(l, 338, &c.NSETIDMAX)
	u16(l, 340, &c.ENDGIDMAX)
	u8(l, 342, &c.ANATT)
	u8(l, 343, &c.ANACAP)
	u32(l, 344, &c.ANAGRPMAX)
	u32(l, 348, &c.NANAGRPID)
	u32(l, 352, &c.PELS)
	u16(l, 356, &c.DomainID)
	u128(l, 368, &c.MEGCAP)
}

// nvmLayout is bytes 512 to 1023: NVM command set attributes and the name of the subsystem.
func (c *IdentifyController) nvmLayout(l layout) {
	u8(l, 512, &c.SQES)
	u8(l, 513, &c.CQES)
	u16(l, 514, &c.MAXCMD)
	u32(l, 516, &c.NN)
	u16(l, 520, &c.ONCS)
	u16(l, 522, &c.FUSES)
	u8(l, 524, &c.FNA)
	u8(l, 525, &c.VWC)
	u16(l, 526, &c.AWUN)
	u16(l, 528, &c.AWUPF)
	u8(l, 530, &c.ICSVSCC)
	u8(l, 531, &c.NWPC)
	u16(l, 532, &c.ACWU)
	u16(l, 534, &c.OCFS)
	u32(l, 536, &c.SGLS)
	u32(l, 540, &c.MNAN)
	u128(l, 544, &c.MAXDNA)
	u32(l, 560, &c.MAXCNA)
	octets(l, 768, c.SubNQN[:])
}

// fabricsLayout is bytes 1792 to 2047: NVMe over Fabrics attributes.
func (c *IdentifyController) fabricsLayout(l layout) {
	u32(l, 1792, &c.IOCCSZ)
	u32(l, 1796, &c.IORCSZ)
	u16(l, 1800, &c.ICDOFF)
	u8(l, 1802, &c.CTRATTR)
	u8(l, 1803, &c.MSDBD)
	u16(l, 1804, &c.OFCS)
	u8(l, 1806, &c.DCTYPE)
}

// Parse decodes IdentifySize bytes.
func (c *IdentifyController) Parse(b []byte) error {
	return parseFixed(c, "identify controller data", b, IdentifySize)
}

// Append adds the structure to b.
func (c *IdentifyController) Append(b []byte) []byte { return appendFixed(c, b, IdentifySize) }
