package wire

// Bits of fields of Identify Namespace.
const (
	NSFEATThin              uint8 = 1 << 0 // thin provisioning: NCAP may be less than NSZE
	NSFEATAtomics           uint8 = 1 << 1 // NAWUN, NAWUPF and NACWU are valid
	NSFEATDeallocatedError  uint8 = 1 << 2
	NSFEATUIDReuse          uint8 = 1 << 3 // NGUID and EUI64 are never reused
	NSFEATOptPerf           uint8 = 1 << 4 // NPWG, NPWA, NPDG, NPDA and NOWS are valid
	NMICShared              uint8 = 1 << 0 // several controllers may attach it
	DLFEATZeros             uint8 = 1 << 0 // deallocated blocks read as zeros
	DLFEATOnes              uint8 = 2 << 0 // deallocated blocks read as ones
	DLFEATWriteZeroesDEAC   uint8 = 1 << 3 // Write Zeroes takes DEAC
	NSATTRWriteProtected    uint8 = 1 << 0
	FLBASIndex              uint8 = 0x0F // of the LBA format in use
	maxLBAFormats                 = 64
	lbaFormatSize                 = 4
	identifyNSFormatsOffset       = 128
)

// LBAFormat is one of the formats a namespace may have.
type LBAFormat struct {
	MS    uint16 // metadata bytes per block
	LBADS uint8  // log2 of the bytes per block
	RP    uint8  // relative performance in bits 1:0
}

// IdentifyNamespace is the Identify structure of a namespace, CNS 00h (NVM Command Set, Identify Namespace Data Structure). All zeros mean that the namespace
// is not active. Reserved and vendor specific bytes are dropped by Parse and zero in Append.
type IdentifyNamespace struct {
	NSZE     uint64 // size in blocks
	NCAP     uint64 // capacity in blocks; 0 for an inactive namespace
	NUSE     uint64 // blocks in use
	NSFEAT   uint8
	NLBAF    uint8 // number of LBA formats, less one
	FLBAS    uint8 // FLBASIndex is the LBA format in use
	MC       uint8
	DPC, DPS uint8
	NMIC     uint8
	RESCAP   uint8
	FPI      uint8
	DLFEAT   uint8
	NAWUN    uint16 // atomic units in blocks, less one
	NAWUPF   uint16
	NACWU    uint16
	NABSN    uint16
	NABO     uint16
	NABSPF   uint16
	NOIOB    uint16 // optimal I/O boundary in blocks
	NVMCAP   Uint128
	NPWG     uint16 // preferred write granularity in blocks, less one
	NPWA     uint16 // preferred write alignment
	NPDG     uint16 // preferred deallocate granularity
	NPDA     uint16 // preferred deallocate alignment
	NOWS     uint16 // optimal write size
	MSSRL    uint16
	MCL      uint32
	MSRC     uint8
	NULBAF   uint8
	ANAGRPID uint32
	NSATTR   uint8
	NVMSETID uint16
	ENDGID   uint16
	NGUID    UUID
	EUI64    [8]byte
	LBAF     [maxLBAFormats]LBAFormat
}

func (n *IdentifyNamespace) layout(l layout) {
	u64(l, 0, &n.NSZE)
	u64(l, 8, &n.NCAP)
	u64(l, 16, &n.NUSE)
	u8(l, 24, &n.NSFEAT)
	u8(l, 25, &n.NLBAF)
	u8(l, 26, &n.FLBAS)
	u8(l, 27, &n.MC)
	u8(l, 28, &n.DPC)
	u8(l, 29, &n.DPS)
	u8(l, 30, &n.NMIC)
	u8(l, 31, &n.RESCAP)
	u8(l, 32, &n.FPI)
	u8(l, 33, &n.DLFEAT)
	u16(l, 34, &n.NAWUN)
	u16(l, 36, &n.NAWUPF)
	u16(l, 38, &n.NACWU)
	u16(l, 40, &n.NABSN)
	u16(l, 42, &n.NABO)
	u16(l, 44, &n.NABSPF)
	u16(l, 46, &n.NOIOB)
	u128(l, 48, &n.NVMCAP)
	u16(l, 64, &n.NPWG)
	u16(l, 66, &n.NPWA)
	u16(l, 68, &n.NPDG)
	u16(l, 70, &n.NPDA)
	u16(l, 72, &n.NOWS)
	u16(l, 74, &n.MSSRL)
	u32(l, 76, &n.MCL)
	u8(l, 80, &n.MSRC)
	u8(l, 82, &n.NULBAF)
	u32(l, 92, &n.ANAGRPID)
	u8(l, 99, &n.NSATTR)
	u16(l, 100, &n.NVMSETID)
	u16(l, 102, &n.ENDGID)
	octets(l, 104, n.NGUID[:])
	octets(l, 120, n.EUI64[:])
	for i := range n.LBAF {
		f, at := &n.LBAF[i], identifyNSFormatsOffset+i*lbaFormatSize
		u16(l, at, &f.MS)
		u8(l, at+2, &f.LBADS)
		u8(l, at+3, &f.RP)
	}
}

// Parse decodes IdentifySize bytes.
func (n *IdentifyNamespace) Parse(b []byte) error {
	return parseFixed(n, "identify namespace data", b, IdentifySize)
}

// Append adds the structure to b.
func (n *IdentifyNamespace) Append(b []byte) []byte { return appendFixed(n, b, IdentifySize) }

// Format is the LBA format in use.
func (n *IdentifyNamespace) Format() LBAFormat {
	index := n.FLBAS & FLBASIndex
	if n.NLBAF >= 16 {
		index |= n.FLBAS >> 5 & 3 << 4
	}
	return n.LBAF[index]
}

// BlockSize is the size in bytes of a logical block, or 0 if LBADS is not one that the standard allows (9) to one that a 32-bit number holds (31).
func (n *IdentifyNamespace) BlockSize() uint32 {
	if ds := n.Format().LBADS; ds >= 9 && ds < 32 {
		return 1 << ds
	}
	return 0
}
