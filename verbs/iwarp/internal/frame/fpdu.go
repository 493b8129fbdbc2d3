package frame

import (
	"encoding/binary"
	"hash/crc32"
)

const (
	// LengthSize is the size of the ULPDU_Length field.
	LengthSize = 2
	// PrefixSize is the length field and the control word: what must be there to
	// know the size of the header.
	PrefixSize = 4
	// CRCSize is the size of the CRC field; it is there even when CRC is off.
	CRCSize = 4
	// MaxULPDU is the largest value of ULPDU_Length.
	MaxULPDU = 1<<16 - 1
	// MaxFPDU is the size of the largest FPDU: 65535 and 2 bytes, 3 of padding, CRC.
	MaxFPDU = LengthSize + MaxULPDU + 3 + CRCSize
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Prefix reads the first PrefixSize bytes of an FPDU.
func Prefix(b []byte) (ulpdu int, c Control) {
	return int(binary.BigEndian.Uint16(b)), Control(binary.BigEndian.Uint16(b[2:]))
}

// Pad is how many zero bytes follow a length field and ULPDU of n bytes together.
func Pad(n int) int { return -n & 3 }

// TrailerSize is the size of padding and CRC after a ULPDU of that length.
func TrailerSize(ulpdu int) int { return Pad(LengthSize+ulpdu) + CRCSize }

// CRC is the CRC32c of an FPDU up to its CRC field.
func CRC(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// AppendTrailer ends the FPDU that fills b from start on with padding and CRC;
// with CRC off the field is zero, as Soft-iWARP sends it.
func AppendTrailer(b []byte, start int, crc bool) []byte {
	for range Pad(len(b) - start) {
		b = append(b, 0)
	}
	var sum uint32
	if crc {
		sum = CRC(b[start:])
	}
	return binary.LittleEndian.AppendUint32(b, sum)
}

// CheckCRC verifies a whole FPDU.
func CheckCRC(fpdu []byte) bool {
	n := len(fpdu) - CRCSize
	return n >= 0 && CRC(fpdu[:n]) == binary.LittleEndian.Uint32(fpdu[n:])
}
