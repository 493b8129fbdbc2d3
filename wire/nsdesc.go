package wire

import "fmt"

// NSDescriptorType is the type of a namespace identifier (NVMe Base, Namespace Identification Descriptor).
type NSDescriptorType uint8

// The identifier types and, in the comments, their lengths.
const (
	NSDescriptorEUI64 NSDescriptorType = 1 // 8
	NSDescriptorNGUID NSDescriptorType = 2 // 16
	NSDescriptorUUID  NSDescriptorType = 3 // 16
	NSDescriptorCSI   NSDescriptorType = 4 // 1
)

// Length is the length in bytes of an identifier of that type, 0 for an unknown type.
func (t NSDescriptorType) Length() int {
	switch t {
	case NSDescriptorEUI64:
		return 8
	case NSDescriptorNGUID, NSDescriptorUUID:
		return 16
	case NSDescriptorCSI:
		return 1
	}
	return 0
}

const nsDescriptorHead = 4

// NSDescriptors is the list of a namespace's identifiers, CNS 03h. An identifier that is not there is zero; HasCSI says whether CSI is there, as
// zero is the NVM command set. Descriptors of unknown type and reserved bytes are dropped by Parse.
type NSDescriptors struct {
	EUI64  [8]byte
	NGUID  UUID
	UUID   UUID
	CSI    CSI
	HasCSI bool
}

// Parse decodes IdentifySize bytes. A descriptor of a known type with another length than the type's, or one that runs over the end, is an error.
func (d *NSDescriptors) Parse(b []byte) error {
	if err := wantSize("namespace identification descriptors", b, IdentifySize); err != nil {
		return err
	}
	*d = NSDescriptors{}
	for len(b) >= nsDescriptorHead {
		kind, n := NSDescriptorType(b[0]), int(b[1])
		if kind == 0 || n == 0 {
			return nil
		}
		if n > len(b)-nsDescriptorHead {
			return fmt.Errorf("namespace identification descriptor type %d has %d bytes, %d are left", kind, n, len(b)-nsDescriptorHead)
		}
		if want := kind.Length(); want != 0 && n != want {
			return fmt.Errorf("namespace identification descriptor type %d has %d bytes, want %d", kind, n, want)
		}
		value := b[nsDescriptorHead : nsDescriptorHead+n]
		switch kind {
		case NSDescriptorEUI64:
			copy(d.EUI64[:], value)
		case NSDescriptorNGUID:
			copy(d.NGUID[:], value)
		case NSDescriptorUUID:
			copy(d.UUID[:], value)
		case NSDescriptorCSI:
			d.CSI, d.HasCSI = CSI(value[0]), true
		}
		b = b[nsDescriptorHead+n:]
	}
	return nil
}

// Append adds the list to b, identifiers in the order of Linux's target: UUID, NGUID, EUI64, CSI.
func (d *NSDescriptors) Append(b []byte) []byte {
	b, added := extend(b, IdentifySize)
	put := func(kind NSDescriptorType, value []byte) {
		added[0], added[1] = uint8(kind), uint8(len(value))
		copy(added[nsDescriptorHead:], value)
		added = added[nsDescriptorHead+len(value):]
	}
	if !d.UUID.IsZero() {
		put(NSDescriptorUUID, d.UUID[:])
	}
	if !d.NGUID.IsZero() {
		put(NSDescriptorNGUID, d.NGUID[:])
	}
	if d.EUI64 != [8]byte{} {
		put(NSDescriptorEUI64, d.EUI64[:])
	}
	if d.HasCSI {
		put(NSDescriptorCSI, []byte{uint8(d.CSI)})
	}
	return b
}
