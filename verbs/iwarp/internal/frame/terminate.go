package frame

import (
	"encoding/binary"
	"slices"
)

// Terminate is the message that ends a stream with an error.
type Terminate struct {
	TermCode
	// Segment is ULPDU_Length of the offending segment, and Header its DDP header
	// (and Read Request header), as received and without the length field. Both are
	// optional.
	Segment uint16
	Header  []byte
}

const (
	termHasLength = 0x80 // M
	termHasDDP    = 0x40 // D
	termHasRDMAP  = 0x20 // R
	termFlags     = termHasLength | termHasDDP | termHasRDMAP
	termBodySize  = 4
	// MaxTerminate is the largest Terminate, without its trailer.
	MaxTerminate = UntaggedSize + termBodySize + 2 + ReadRequestSize - LengthSize
)

// NewTerminate makes the message for an offending FPDU whose header is given,
// from its length field on; a nil header when the error has none.
func NewTerminate(code TermCode, header []byte) Terminate {
	t := Terminate{TermCode: code}
	if len(header) >= TaggedSize {
		t.Segment = binary.BigEndian.Uint16(header)
		t.Header = slices.Clone(header[LengthSize:])
	}
	return t
}

// Append adds the message without its trailer. Its message sequence number is 1,
// as it is the only one of its queue.
func (t Terminate) Append(b []byte) []byte {
	var flags uint8
	extra := 0
	switch len(t.Header) + LengthSize {
	case TaggedSize, UntaggedSize:
		flags, extra = termHasLength|termHasDDP, 2+len(t.Header)
	case ReadRequestSize:
		flags, extra = termFlags, 2+len(t.Header)
	}
	b = Untagged{Op: OpTerminate, Last: true, QN: QueueTerminate, MSN: 1, Payload: termBodySize + extra}.Append(b)
	b = append(b, t.Layer<<4|t.Type&0xF, t.Code, flags, 0)
	if flags != 0 {
		b = binary.BigEndian.AppendUint16(b, t.Segment)
		b = append(b, t.Header...)
	}
	return b
}

// ParseTerminate reads what follows the untagged header. Soft-iWARP on
// little-endian machines swaps the nibbles of layer and type and mirrors the
// header flags; that form is understood too. Missing parts are taken as absent:
// the message is only a diagnosis.
func ParseTerminate(body []byte) (t Terminate, ok bool) {
	if len(body) < termBodySize {
		return t, false
	}
	flags := body[2]
	t.TermCode = TermCode{body[0] >> 4, body[0] & 0xF, body[1]}
	swapped := TermCode{t.Type, t.Layer, t.Code}
	if mirrored := flags&0x1F != 0 && flags&termFlags == 0; mirrored || flags == 0 && !t.Known() && swapped.Known() {
		t.TermCode = swapped
		flags = flags&1<<7 | flags&2<<5 | flags&4<<3
	}
	rest := body[termBodySize:]
	if flags&termHasLength != 0 && len(rest) >= 2 {
		t.Segment = binary.BigEndian.Uint16(rest)
		rest = rest[2:]
	}
	if flags&termHasDDP != 0 {
		t.Header = termHeader(rest, flags&termHasRDMAP != 0)
	}
	return t, true
}

// termHeader is the copied header: tagged, untagged or Read Request.
func termHeader(b []byte, readRequest bool) []byte {
	n := UntaggedSize - LengthSize
	switch {
	case len(b) >= 2 && Control(binary.BigEndian.Uint16(b)).Tagged():
		n = TaggedSize - LengthSize
	case readRequest:
		n = ReadRequestSize - LengthSize
	}
	if len(b) < n {
		return nil
	}
	return slices.Clone(b[:n])
}

// Offender is the untagged header of the offending message, if the Terminate
// has one: its queue and MSN name the work request that failed.
func (t Terminate) Offender() (h Untagged, ok bool) {
	if len(t.Header) < UntaggedSize-LengthSize || Control(binary.BigEndian.Uint16(t.Header)).Tagged() {
		return h, false
	}
	h, _ = ParseUntagged(append([]byte{0, 0}, t.Header...))
	return h, true
}
