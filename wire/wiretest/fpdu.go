package wiretest

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// An MPAFrame is the first frame of a direction (RFC 5044 section 7.1, RFC 6581).
type MPAFrame struct {
	Raw         []byte
	Flags       uint8
	Revision    uint8
	Enhanced    bool   // IRD and ORD are there
	IRD, ORD    uint16 // the words as they are, with the flag bits
	PrivateData []byte // of the consumer, behind IRD and ORD
}

// Rejects says that the frame is a Reply that refuses the connection.
func (m *MPAFrame) Rejects() bool { return m.Flags&0x20 != 0 }

// An FPDU is one framed protocol data unit: a DDP segment with its header decoded (RFC 5044 section 4, RFC 5041 section 4).
type FPDU struct {
	Raw     []byte // with length, pad and CRC
	Opcode  Opcode
	Tagged  bool
	Last    bool
	STag    uint32 // of a tagged segment; of an untagged one the STag to invalidate, or 0
	TO      uint64 // tagged offset
	QN, MSN uint32 // of an untagged segment
	MO      uint32
	Payload []byte
	Line    int // of the file, where the last byte was
}

const (
	mpaHead      = 20
	lengthSize   = 2
	crcSize      = 4
	taggedHead   = 14
	untaggedHead = 18
)

// cut divides the bytes of a half into the MPA frame and FPDUs.
func (h *Half) cut(segments []segment) error {
	if len(h.Bytes) < mpaHead {
		return errors.New("no MPA frame")
	}
	end := mpaHead + int(binary.BigEndian.Uint16(h.Bytes[18:]))
	if len(h.Bytes) < end {
		return errors.New("MPA frame is cut off")
	}
	h.MPA = MPAFrame{
		Raw:         h.Bytes[:end],
		Flags:       h.Bytes[16],
		Revision:    h.Bytes[17],
		Enhanced:    h.Bytes[16]&0x10 != 0,
		PrivateData: h.Bytes[mpaHead:end],
	}
	if h.MPA.Enhanced {
		if len(h.MPA.PrivateData) < 4 {
			return errors.New("enhanced MPA frame has no IRD and ORD")
		}
		h.MPA.IRD = binary.BigEndian.Uint16(h.MPA.PrivateData)
		h.MPA.ORD = binary.BigEndian.Uint16(h.MPA.PrivateData[2:])
		h.MPA.PrivateData = h.MPA.PrivateData[4:]
	}
	for at := end; at < len(h.Bytes); {
		f, err := parseFPDU(h.Bytes[at:])
		if err != nil {
			return fmt.Errorf("FPDU at byte %d: %w", at, err)
		}
		at += len(f.Raw)
		for segments[0].end < at {
			segments = segments[1:]
		}
		f.Line = segments[0].line
		h.FPDUs = append(h.FPDUs, f)
	}
	return nil
}

// parseFPDU decodes the FPDU at the start of b.
func parseFPDU(b []byte) (FPDU, error) {
	if len(b) < lengthSize {
		return FPDU{}, errors.New("no length")
	}
	n := int(binary.BigEndian.Uint16(b))
	size := (lengthSize+n+3)&^3 + crcSize
	if len(b) < size {
		return FPDU{}, fmt.Errorf("has %d bytes, want %d", len(b), size)
	}
	ulpdu := b[lengthSize : lengthSize+n]
	if n < taggedHead {
		return FPDU{}, fmt.Errorf("ULPDU of %d bytes has no header", n)
	}
	f := FPDU{
		Raw:    b[:size],
		Tagged: ulpdu[0]&0x80 != 0,
		Last:   ulpdu[0]&0x40 != 0,
		Opcode: Opcode(ulpdu[1] & 0xF),
		STag:   binary.BigEndian.Uint32(ulpdu[2:]),
	}
	if f.Tagged {
		f.TO = binary.BigEndian.Uint64(ulpdu[6:])
		f.Payload = ulpdu[taggedHead:]
		return f, nil
	}
	if n < untaggedHead {
		return FPDU{}, fmt.Errorf("untagged ULPDU of %d bytes has no header", n)
	}
	f.QN = binary.BigEndian.Uint32(ulpdu[6:])
	f.MSN = binary.BigEndian.Uint32(ulpdu[10:])
	f.MO = binary.BigEndian.Uint32(ulpdu[14:])
	f.Payload = ulpdu[untaggedHead:]
	return f, nil
}
