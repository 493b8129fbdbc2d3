package wire

import "fmt"

// TransportType is the field TRTYPE of a discovery log entry.
type TransportType uint8

// The transports.
const (
	TransportRDMA TransportType = 1
	TransportFC   TransportType = 2
	TransportTCP  TransportType = 3
	TransportLoop TransportType = 254
)

func (t TransportType) String() string {
	switch t {
	case TransportRDMA:
		return "rdma"
	case TransportFC:
		return "fc"
	case TransportTCP:
		return "tcp"
	case TransportLoop:
		return "loop"
	}
	return fmt.Sprintf("trtype %d", uint8(t))
}

// AddressFamily is the field ADRFAM of a discovery log entry.
type AddressFamily uint8

// The address families.
const (
	AddressIPv4 AddressFamily = 1
	AddressIPv6 AddressFamily = 2
	AddressIB   AddressFamily = 3
	AddressFC   AddressFamily = 4
	AddressLoop AddressFamily = 254
)

func (a AddressFamily) String() string {
	switch a {
	case AddressIPv4:
		return "ipv4"
	case AddressIPv6:
		return "ipv6"
	case AddressIB:
		return "infiniband"
	case AddressFC:
		return "fibre-channel"
	case AddressLoop:
		return "loop"
	}
	return fmt.Sprintf("adrfam %d", uint8(a))
}

// SubsystemType is the field SUBTYPE of a discovery log entry.
type SubsystemType uint8

// The subsystem types.
const (
	SubsystemReferral         SubsystemType = 1 // another discovery subsystem
	SubsystemNVM              SubsystemType = 2
	SubsystemCurrentDiscovery SubsystemType = 3
)

func (s SubsystemType) String() string {
	switch s {
	case SubsystemReferral:
		return "discovery subsystem referral"
	case SubsystemNVM:
		return "nvme subsystem"
	case SubsystemCurrentDiscovery:
		return "current discovery subsystem"
	}
	return fmt.Sprintf("subtype %d", uint8(s))
}

// TransportRequirements is the field TREQ of a discovery log entry.
type TransportRequirements uint8

// The values of bits 1:0, secure channel, and bit 2.
const (
	TREQSecureMask        TransportRequirements = 3
	TREQSecureUnspecified TransportRequirements = 0
	TREQSecureRequired    TransportRequirements = 1
	TREQSecureNotRequired TransportRequirements = 2
	TREQDisableSQFlow     TransportRequirements = 1 << 2 // submission queue flow control can be disabled
)

func (t TransportRequirements) String() string {
	text := "not specified"
	switch t & TREQSecureMask {
	case TREQSecureRequired:
		text = "required"
	case TREQSecureNotRequired:
		text = "not required"
	case TREQSecureMask:
		text = "reserved"
	}
	if t&TREQDisableSQFlow != 0 {
		text += ", sq flow control disable supported"
	}
	return text
}

// RDMAQPType is the field RDMA_QPTYPE of a discovery log entry.
type RDMAQPType uint8

// The queue pair types.
const (
	QPTypeConnected RDMAQPType = 1
	QPTypeDatagram  RDMAQPType = 2
)

func (t RDMAQPType) String() string {
	switch t {
	case QPTypeConnected:
		return "connected"
	case QPTypeDatagram:
		return "datagram"
	}
	return fmt.Sprintf("qptype %d", uint8(t))
}

// RDMAProvider is the field RDMA_PRTYPE of a discovery log entry.
type RDMAProvider uint8

// The RDMA provider types.
const (
	ProviderNotSpecified RDMAProvider = 1
	ProviderInfiniBand   RDMAProvider = 2
	ProviderRoCE         RDMAProvider = 3
	ProviderRoCEv2       RDMAProvider = 4
	ProviderIWARP        RDMAProvider = 5
)

func (p RDMAProvider) String() string {
	switch p {
	case ProviderNotSpecified:
		return "not specified"
	case ProviderInfiniBand:
		return "infiniband"
	case ProviderRoCE:
		return "roce"
	case ProviderRoCEv2:
		return "roce-v2"
	case ProviderIWARP:
		return "iwarp"
	}
	return fmt.Sprintf("prtype %d", uint8(p))
}

// RDMACMS is the field RDMA_CMS of a discovery log entry.
type RDMACMS uint8

// CMSRDMACM is the only connection management service: the IP addressing of RDMA CM.
const CMSRDMACM RDMACMS = 1

func (c RDMACMS) String() string {
	if c == CMSRDMACM {
		return "rdma-cm"
	}
	return fmt.Sprintf("cms %d", uint8(c))
}
