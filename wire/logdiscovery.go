package wire

const (
	// DiscoveryLogHeaderSize is the length in bytes of the head of the Discovery log page; the entries follow it.
	DiscoveryLogHeaderSize = 1024
	// DiscoveryLogEntrySize is the length in bytes of one entry.
	DiscoveryLogEntrySize = 1024
)

// A DiscoveryLogHeader is the head of the Discovery log page, 70h (NVMe Base).
type DiscoveryLogHeader struct {
	GENCTR uint64 // generation counter: it changes whenever the page does
	NUMREC uint64 // number of entries
	RECFMT uint16 // record format; 0
}

func (h *DiscoveryLogHeader) layout(l layout) {
	u64(l, 0, &h.GENCTR)
	u64(l, 8, &h.NUMREC)
	u16(l, 16, &h.RECFMT)
}

// Parse decodes the head from b, of which 20 bytes are enough: hosts first read as little as that. What follows the head is left alone.
func (h *DiscoveryLogHeader) Parse(b []byte) error {
	return parsePadded(h, "discovery log header", b, discoveryHeadUsed)
}

// discoveryHeadUsed is the bytes of the header that have a meaning, rounded up to dwords.
const discoveryHeadUsed = 20

// Append adds the head to b as DiscoveryLogHeaderSize bytes.
func (h *DiscoveryLogHeader) Append(b []byte) []byte {
	return appendFixed(h, b, DiscoveryLogHeaderSize)
}

// A DiscoveryLogEntry tells how to reach one subsystem (NVMe Base, Discovery Log Page Entry; NVMe RDMA Transport for the transport
// specific part). Reserved bytes are dropped by Parse and zero in Append.
type DiscoveryLogEntry struct {
	TRTYPE  TransportType
	ADRFAM  AddressFamily
	SUBTYPE SubsystemType
	TREQ    TransportRequirements
	PORTID  uint16
	CNTLID  uint16 // CNTLIDDynamic for the dynamic controller model
	ASQSZ   uint16 // largest admin submission queue in entries
	EFLAGS  uint16
	TRSVCID [32]byte // transport service, such as "4420"; ASCII, see Text and PutText
	SUBNQN  NQNField
	TRADDR  [256]byte // transport address; ASCII
	TSAS    RDMATransportAddress
}

// The bits of DiscoveryLogEntry.EFLAGS.
const (
	EFLAGSDuplicate         uint16 = 1 << 0 // DUPRETINFO: the same information is at other addresses of the target
	EFLAGSPersistent        uint16 = 1 << 1 // EPCSD: persistent connections to the discovery subsystem are supported
	EFLAGSNoCDCConnectivity uint16 = 1 << 2 // NCC
)

// RDMATransportAddress is the transport specific address subtype of RDMA.
type RDMATransportAddress struct {
	QPTYPE RDMAQPType
	PRTYPE RDMAProvider
	CMS    RDMACMS
	PKEY   uint16 // InfiniBand partition key
}

func (e *DiscoveryLogEntry) layout(l layout) {
	u8(l, 0, &e.TRTYPE)
	u8(l, 1, &e.ADRFAM)
	u8(l, 2, &e.SUBTYPE)
	u8(l, 3, &e.TREQ)
	u16(l, 4, &e.PORTID)
	u16(l, 6, &e.CNTLID)
	u16(l, 8, &e.ASQSZ)
	u16(l, 10, &e.EFLAGS)
	octets(l, 32, e.TRSVCID[:])
	octets(l, 256, e.SUBNQN[:])
	octets(l, 512, e.TRADDR[:])
	u8(l, 768, &e.TSAS.QPTYPE)
	u8(l, 769, &e.TSAS.PRTYPE)
	u8(l, 770, &e.TSAS.CMS)
	u16(l, 776, &e.TSAS.PKEY)
}

// Parse decodes DiscoveryLogEntrySize bytes.
func (e *DiscoveryLogEntry) Parse(b []byte) error {
	return parseFixed(e, "discovery log entry", b, DiscoveryLogEntrySize)
}

// Append adds the entry to b.
func (e *DiscoveryLogEntry) Append(b []byte) []byte { return appendFixed(e, b, DiscoveryLogEntrySize) }
