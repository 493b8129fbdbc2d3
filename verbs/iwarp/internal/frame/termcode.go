package frame

import "fmt"

// TermCode says in a Terminate what went wrong: the layer that found the error
// (0 RDMAP, 1 DDP, 2 the layer below), the error type and the code.
type TermCode struct{ Layer, Type, Code uint8 }

// The errors of RFC 5040 (4.8), RFC 5041 (8.2), RFC 5044 (8) and RFC 6581 (9).
var (
	TermLocalCatastrophic = TermCode{0, 0, 0x00}

	TermReadSTag      = TermCode{0, 1, 0x00}
	TermReadBounds    = TermCode{0, 1, 0x01}
	TermAccess        = TermCode{0, 1, 0x02}
	TermReadNotAssoc  = TermCode{0, 1, 0x03}
	TermReadWrap      = TermCode{0, 1, 0x04}
	TermInvalidate    = TermCode{0, 1, 0x09}
	TermRDMAPVersion  = TermCode{0, 2, 0x05}
	TermOpcode        = TermCode{0, 2, 0x06}
	TermStream        = TermCode{0, 2, 0x07}
	TermGlobal        = TermCode{0, 2, 0x08}
	TermInvalidateOp  = TermCode{0, 2, 0x09}
	TermUnspecified   = TermCode{0, 2, 0xFF}
	TermUnspecifiedRP = TermCode{0, 1, 0xFF}

	TermDDPCatastrophic = TermCode{1, 0, 0x00}
	TermTaggedSTag      = TermCode{1, 1, 0x00}
	TermTaggedBounds    = TermCode{1, 1, 0x01}
	TermTaggedNotAssoc  = TermCode{1, 1, 0x02}
	TermTaggedWrap      = TermCode{1, 1, 0x03}
	TermTaggedVersion   = TermCode{1, 1, 0x04}
	TermQueue           = TermCode{1, 2, 0x01}
	TermNoBuffer        = TermCode{1, 2, 0x02}
	TermMSN             = TermCode{1, 2, 0x03}
	TermMO              = TermCode{1, 2, 0x04}
	TermTooLong         = TermCode{1, 2, 0x05}
	TermUntaggedVersion = TermCode{1, 2, 0x06}

	TermMPAClosed       = TermCode{2, 0, 0x01}
	TermMPACRC          = TermCode{2, 0, 0x02}
	TermMPAMarker       = TermCode{2, 0, 0x03}
	TermMPAFrame        = TermCode{2, 0, 0x04}
	TermMPACatastrophic = TermCode{2, 0, 0x05}
	TermMPAIRD          = TermCode{2, 0, 0x06}
	TermMPARTR          = TermCode{2, 0, 0x07}
)

// termWords are filled into "LAYER: WORDS".
var termWords = map[TermCode]string{
	TermLocalCatastrophic: "RDMAP: local catastrophic error",
	TermReadSTag:          "RDMAP remote protection error: invalid STag",
	TermReadBounds:        "RDMAP remote protection error: base or bounds violation",
	TermAccess:            "RDMAP remote protection error: access rights violation",
	TermReadNotAssoc:      "RDMAP remote protection error: STag not associated with the stream",
	TermReadWrap:          "RDMAP remote protection error: TO wrap",
	TermInvalidate:        "RDMAP remote protection error: STag cannot be invalidated",
	TermUnspecifiedRP:     "RDMAP remote protection error: unspecified",
	TermRDMAPVersion:      "RDMAP remote operation error: invalid RDMAP version",
	TermOpcode:            "RDMAP remote operation error: unexpected opcode",
	TermStream:            "RDMAP remote operation error: catastrophic, local to the stream",
	TermGlobal:            "RDMAP remote operation error: catastrophic, global",
	TermInvalidateOp:      "RDMAP remote operation error: STag cannot be invalidated",
	TermUnspecified:       "RDMAP remote operation error: unspecified",
	TermDDPCatastrophic:   "DDP: local catastrophic error",
	TermTaggedSTag:        "DDP tagged buffer error: invalid STag",
	TermTaggedBounds:      "DDP tagged buffer error: base or bounds violation",
	TermTaggedNotAssoc:    "DDP tagged buffer error: STag not associated with the stream",
	TermTaggedWrap:        "DDP tagged buffer error: TO wrap",
	TermTaggedVersion:     "DDP tagged buffer error: invalid DDP version",
	TermQueue:             "DDP untagged buffer error: invalid queue number",
	TermNoBuffer:          "DDP untagged buffer error: no buffer available",
	TermMSN:               "DDP untagged buffer error: MSN out of range",
	TermMO:                "DDP untagged buffer error: invalid message offset",
	TermTooLong:           "DDP untagged buffer error: message too long for the buffer",
	TermUntaggedVersion:   "DDP untagged buffer error: invalid DDP version",
	TermMPAClosed:         "MPA error: connection closed or lost",
	TermMPACRC:            "MPA error: CRC mismatch",
	TermMPAMarker:         "MPA error: marker and ULPDU length disagree",
	TermMPAFrame:          "MPA error: invalid frame",
	TermMPACatastrophic:   "MPA error: local catastrophic error",
	TermMPAIRD:            "MPA error: insufficient IRD resources",
	TermMPARTR:            "MPA error: no matching RTR option",
}

// Known says whether the RFCs define the combination.
func (c TermCode) Known() bool { _, ok := termWords[c]; return ok }

func (c TermCode) String() string {
	if s, ok := termWords[c]; ok {
		return s
	}
	return fmt.Sprintf("error of layer %d, type %d, code %#02x", c.Layer, c.Type, c.Code)
}

// Number is the code as one number: 0xLTCC.
func (c TermCode) Number() uint32 {
	return uint32(c.Layer&0xF)<<12 | uint32(c.Type&0xF)<<8 | uint32(c.Code)
}
