package wire

import "fmt"

// Property is the offset of a controller property (NVMe Base, Property Definitions).
type Property uint32

// The properties that NVMe over Fabrics has.
const (
	PropertyCAP  Property = 0x00 // controller capabilities, 8 bytes
	PropertyVS   Property = 0x08 // version
	PropertyCC   Property = 0x14 // controller configuration
	PropertyCSTS Property = 0x1C // controller status
	PropertyNSSR Property = 0x20 // NVM subsystem reset
	PropertyCRTO Property = 0x68 // controller ready timeouts
)

func (p Property) String() string {
	switch p {
	case PropertyCAP:
		return "CAP"
	case PropertyVS:
		return "VS"
	case PropertyCC:
		return "CC"
	case PropertyCSTS:
		return "CSTS"
	case PropertyNSSR:
		return "NSSR"
	case PropertyCRTO:
		return "CRTO"
	}
	return fmt.Sprintf("property 0x%x", uint32(p))
}

// Size is the length in bytes of the property, 0 for one that is not known.
func (p Property) Size() int {
	switch p {
	case PropertyCAP:
		return 8
	case PropertyVS, PropertyCC, PropertyCSTS, PropertyNSSR, PropertyCRTO:
		return 4
	}
	return 0
}

// PropertySize is the size field of the ATTRIB byte of Property Get and Set.
type PropertySize uint8

// The property sizes.
const (
	PropertySize4 PropertySize = 0
	PropertySize8 PropertySize = 1
)

// Bytes is the length that the field means, 0 for a reserved value.
func (s PropertySize) Bytes() int {
	switch s {
	case PropertySize4:
		return 4
	case PropertySize8:
		return 8
	}
	return 0
}

// sizeOf is the ATTRIB size of a property.
func sizeOf(p Property) PropertySize {
	if p.Size() == 8 {
		return PropertySize8
	}
	return PropertySize4
}

// A PropertyGet is the Fabrics command that reads a property; the value is the Result of its CQE.
type PropertyGet struct {
	Size   PropertySize
	Offset Property
}

// NewPropertyGet asks for a property with the size that it has.
func NewPropertyGet(p Property) PropertyGet { return PropertyGet{Size: sizeOf(p), Offset: p} }

// ParsePropertyGet is the view of a Property Get command.
func ParsePropertyGet(s *SQE) PropertyGet {
	return PropertyGet{Size: PropertySize(s.CDW10 & 7), Offset: Property(s.CDW11)}
}

// SQE is the command, without CID.
func (g PropertyGet) SQE() SQE {
	s := fabricsSQE(FabricsPropertyGet)
	s.CDW10 = uint32(g.Size & 7)
	s.CDW11 = uint32(g.Offset)
	return s
}

// A PropertySet is the Fabrics command that writes a property.
type PropertySet struct {
	Size   PropertySize
	Offset Property
	Value  uint64 // the low 4 bytes count when Size is PropertySize4
}

// NewPropertySet sets a property with the size that it has.
func NewPropertySet(p Property, value uint64) PropertySet {
	return PropertySet{Size: sizeOf(p), Offset: p, Value: value}
}

// ParsePropertySet is the view of a Property Set command.
func ParsePropertySet(s *SQE) PropertySet {
	return PropertySet{
		Size:   PropertySize(s.CDW10 & 7),
		Offset: Property(s.CDW11),
		Value:  uint64(s.CDW13)<<32 | uint64(s.CDW12),
	}
}

// SQE is the command, without CID.
func (p PropertySet) SQE() SQE {
	s := fabricsSQE(FabricsPropertySet)
	s.CDW10 = uint32(p.Size & 7)
	s.CDW11 = uint32(p.Offset)
	s.CDW12 = uint32(p.Value)
	s.CDW13 = uint32(p.Value >> 32)
	return s
}
