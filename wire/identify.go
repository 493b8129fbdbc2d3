package wire

import "fmt"

// NSIDAll is the namespace identifier that means every namespace.
const NSIDAll = 0xFFFFFFFF

// IdentifySize is the length in bytes of the data of every Identify command.
const IdentifySize = 4096

// CNS says which structure an Identify command asks for (NVMe Base, Controller or Namespace Structure).
type CNS uint8

// The structures.
const (
	CNSNamespace            CNS = 0x00 // IdentifyNamespace
	CNSController           CNS = 0x01 // IdentifyController
	CNSActiveNamespaces     CNS = 0x02 // NSList
	CNSNamespaceDescriptors CNS = 0x03 // NSDescriptors
	CNSCSINamespace         CNS = 0x05 // I/O command set specific namespace
	CNSCSIController        CNS = 0x06 // I/O command set specific controller: IdentifyNVMController
	CNSCSIActiveNamespaces  CNS = 0x07
	CNSIndependentNamespace CNS = 0x08 // IdentifyIndependentNamespace
	CNSAllocatedNamespaces  CNS = 0x10
	CNSAllocatedNamespace   CNS = 0x11
	CNSAttachedControllers  CNS = 0x12
	CNSControllers          CNS = 0x13
	CNSCommandSets          CNS = 0x1C
)

func (c CNS) String() string {
	switch c {
	case CNSNamespace:
		return "namespace"
	case CNSController:
		return "controller"
	case CNSActiveNamespaces:
		return "active namespaces"
	case CNSNamespaceDescriptors:
		return "namespace descriptors"
	case CNSCSINamespace:
		return "command set's namespace"
	case CNSCSIController:
		return "command set's controller"
	case CNSCSIActiveNamespaces:
		return "command set's active namespaces"
	case CNSIndependentNamespace:
		return "independent namespace"
	case CNSAllocatedNamespaces:
		return "allocated namespaces"
	case CNSAllocatedNamespace:
		return "allocated namespace"
	case CNSAttachedControllers:
		return "attached controllers"
	case CNSControllers:
		return "controllers"
	case CNSCommandSets:
		return "command sets"
	}
	return fmt.Sprintf("CNS 0x%02x", uint8(c))
}

// CSI is an I/O command set identifier.
type CSI uint8

// CSINVM is the NVM command set.
const CSINVM CSI = 0

// An Identify is the command that asks for one of the Identify structures.
type Identify struct {
	CNS       CNS
	NSID      uint32
	CNTID     uint16 // controller identifier, of the structures that need one
	CSI       CSI
	CNSSI     uint16 // CNS specific identifier
	UUIDIndex uint8  // 7 bits
}

// ParseIdentify is the view of an Identify command.
func ParseIdentify(s *SQE) Identify {
	return Identify{
		CNS:       CNS(s.CDW10),
		NSID:      s.NSID,
		CNTID:     uint16(s.CDW10 >> 16),
		CSI:       CSI(s.CDW11 >> 24),
		CNSSI:     uint16(s.CDW11),
		UUIDIndex: uint8(s.CDW14 & 0x7F),
	}
}

// SQE is the command, without CID and SGL.
func (i Identify) SQE() SQE {
	s := newSQE(uint8(AdminIdentify), i.NSID)
	s.CDW10 = uint32(i.CNTID)<<16 | uint32(i.CNS)
	s.CDW11 = uint32(i.CSI)<<24 | uint32(i.CNSSI)
	s.CDW14 = uint32(i.UUIDIndex & 0x7F)
	return s
}
