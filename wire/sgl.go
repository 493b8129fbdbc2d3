package wire

import (
	"encoding/binary"
	"fmt"
)

// SGLSize is the length in bytes of an SGL descriptor.
const SGLSize = 16

// MaxKeyedLength is the longest transfer in bytes that a keyed SGL data block can name: its length has 24 bits.
const MaxKeyedLength = 1<<24 - 1

// SGLType is the high nibble of an SGL identifier (NVMe Base, SGL Descriptor Type).
type SGLType uint8

// The SGL descriptor types.
const (
	SGLDataBlock          SGLType = 0x0
	SGLBitBucket          SGLType = 0x1
	SGLSegment            SGLType = 0x2
	SGLLastSegment        SGLType = 0x3
	SGLKeyedDataBlock     SGLType = 0x4
	SGLTransportDataBlock SGLType = 0x5
	SGLVendorSpecific     SGLType = 0xF
)

func (t SGLType) String() string {
	switch t {
	case SGLDataBlock:
		return "data block"
	case SGLBitBucket:
		return "bit bucket"
	case SGLSegment:
		return "segment"
	case SGLLastSegment:
		return "last segment"
	case SGLKeyedDataBlock:
		return "keyed data block"
	case SGLTransportDataBlock:
		return "transport data block"
	case SGLVendorSpecific:
		return "vendor specific"
	}
	return fmt.Sprintf("SGL type 0x%x", uint8(t))
}

// SGLSubtype is the low nibble of an SGL identifier.
type SGLSubtype uint8

// The SGL descriptor subtypes. SGLInvalidate is defined by the RDMA transport for keyed data blocks: the controller should invalidate the key
// with the SEND of its response.
const (
	SGLAddress    SGLSubtype = 0x0
	SGLOffset     SGLSubtype = 0x1
	SGLInvalidate SGLSubtype = 0xF
)

func (t SGLSubtype) String() string {
	switch t {
	case SGLAddress:
		return "address"
	case SGLOffset:
		return "offset"
	case SGLInvalidate:
		return "invalidate"
	}
	return fmt.Sprintf("SGL subtype 0x%x", uint8(t))
}

// An SGL is one SGL descriptor, the only one that a command capsule over RDMA has (NVMe Base, SGL; NVMe RDMA Transport, keyed SGL).
type SGL struct {
	Addr    uint64     // remote address of a keyed block, or offset in the capsule's data of an offset block
	Length  uint32     // bytes; 24 bits on the wire when keyed
	Key     uint32     // rkey when keyed; else the three reserved bytes before the identifier, which must be zero
	Type    SGLType    // 4 bits
	Subtype SGLSubtype // 4 bits
}

// KeyedSGL names length bytes (at most MaxKeyedLength) at addr in the host's memory region with that rkey. With invalidate the controller is asked
// to invalidate the key when it answers.
func KeyedSGL(addr uint64, length, key uint32, invalidate bool) SGL {
	s := SGL{Addr: addr, Length: length, Key: key, Type: SGLKeyedDataBlock}
	if invalidate {
		s.Subtype = SGLInvalidate
	}
	return s
}

// OffsetSGL names length bytes of in-capsule data, beginning off bytes after the SQE. Linux wants off to be 0.
func OffsetSGL(off uint64, length uint32) SGL {
	return SGL{Addr: off, Length: length, Type: SGLDataBlock, Subtype: SGLOffset}
}

// NoDataSGL is the descriptor of a command that moves no data: a keyed block of length 0, as Linux sends it.
func NoDataSGL() SGL { return SGL{Type: SGLKeyedDataBlock} }

// Keyed says that the descriptor is a keyed data block.
func (s *SGL) Keyed() bool { return s.Type == SGLKeyedDataBlock }

// InCapsule says that the descriptor is an offset into the data that follows the SQE in its capsule.
func (s *SGL) InCapsule() bool { return s.Type == SGLDataBlock && s.Subtype == SGLOffset }

// Parse decodes a descriptor of SGLSize bytes.
func (s *SGL) Parse(b []byte) error {
	if len(b) != SGLSize {
		return wantSize("SGL descriptor", b, SGLSize)
	}
	s.get(b)
	return nil
}

func (s *SGL) get(b []byte) {
	_ = b[SGLSize-1]
	s.Addr = binary.LittleEndian.Uint64(b)
	s.Type, s.Subtype = SGLType(b[15]>>4), SGLSubtype(b[15]&0xF)
	// Bytes 8 to 14: a keyed length has three bytes and the key four, any other length four and three reserved bytes.
	if s.Keyed() {
		s.Length = binary.LittleEndian.Uint32(b[8:]) & MaxKeyedLength
		s.Key = binary.LittleEndian.Uint32(b[11:])
	} else {
		s.Length = binary.LittleEndian.Uint32(b[8:])
		s.Key = binary.LittleEndian.Uint32(b[11:]) >> 8
	}
}

// Put writes the descriptor to the first SGLSize bytes of b. Bits of a field beyond its width are dropped.
func (s *SGL) Put(b []byte) {
	_ = b[SGLSize-1]
	binary.LittleEndian.PutUint64(b, s.Addr)
	if s.Keyed() {
		binary.LittleEndian.PutUint32(b[8:], s.Length&MaxKeyedLength)
		binary.LittleEndian.PutUint32(b[11:], s.Key)
	} else {
		binary.LittleEndian.PutUint32(b[11:], s.Key<<8)
		binary.LittleEndian.PutUint32(b[8:], s.Length)
	}
	b[15] = uint8(s.Type)<<4 | uint8(s.Subtype)&0xF
}

// Append adds the descriptor to b.
func (s *SGL) Append(b []byte) []byte {
	b, added := extend(b, SGLSize)
	s.Put(added)
	return b
}

// String names the descriptor for debug lines, such as "keyed addr=0x1000 len=4096 key=0x1234 invalidate".
func (s *SGL) String() string { return string(s.appendText(nil)) }

func (s *SGL) appendText(b []byte) []byte {
	switch {
	case s.Keyed() && s.Length == 0 && s.Addr == 0 && s.Key == 0:
		b = append(b, "none"...)
	case s.Keyed():
		b = fmt.Appendf(b, "keyed addr=0x%x len=%d key=0x%08x", s.Addr, s.Length, s.Key)
		if s.Subtype == SGLInvalidate {
			b = append(b, " invalidate"...)
		}
	case s.InCapsule():
		b = fmt.Appendf(b, "in-capsule off=%d len=%d", s.Addr, s.Length)
	default:
		b = fmt.Appendf(b, "%s/%s addr=0x%x len=%d", s.Type, s.Subtype, s.Addr, s.Length)
	}
	return b
}
