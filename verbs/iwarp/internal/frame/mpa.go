package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	// MPAHeaderSize is the size of an MPA frame without its private data.
	MPAHeaderSize = 20
	// MaxMPAPrivate is the most private data of an MPA frame, the words included.
	MaxMPAPrivate = 512
	// NoNegotiation in an IRD or ORD word: its sender does not negotiate it.
	NoNegotiation = 0x3FFF
	mpaWordsSize  = 4

	requestKey = "MPA ID Req Frame"
	replyKey   = "MPA ID Rep Frame"
)

// Flags of the MPA frame and of its two words.
const (
	mpaMarkers  = 0x80
	mpaCRC      = 0x40
	mpaReject   = 0x20
	mpaEnhanced = 0x10
	wordHigh    = 0x8000
	wordLow     = 0x4000
	wordValue   = 0x3FFF
)

// Errors of ParseMPA that callers decide by.
var (
	// ErrNotMPA: the bytes are not an MPA frame of the kind expected.
	ErrNotMPA = errors.New("not an MPA frame")
	// ErrMPA: an MPA frame, but one that can't be accepted.
	ErrMPA = errors.New("invalid MPA frame")
)

// MPA is the request or reply frame that begins a connection.
type MPA struct {
	Reply    bool
	Markers  bool // M: the sender wants to receive markers
	CRC      bool // C
	Reject   bool // R, replies only
	Enhanced bool // S: the IRD and ORD words are there
	Revision uint8

	IRD, ORD  uint16 // 14 bits
	P2P       bool   // A: peer-to-peer, the initiator begins with an RTR message
	RTRSend   bool   // B: as a zero-length Send
	RTRWrite  bool   // C: as a zero-length RDMA Write
	RTRRead   bool   // D: as a zero-length RDMA Read
	Private   []byte // without the words
	privateSz int
}

// Append adds the whole frame.
func (m *MPA) Append(b []byte) []byte {
	key, flags, n := requestKey, uint8(0), len(m.Private)
	if m.Reply {
		key = replyKey
	}
	for _, f := range []struct {
		on   bool
		mask uint8
	}{{m.Markers, mpaMarkers}, {m.CRC, mpaCRC}, {m.Reject, mpaReject}, {m.Enhanced, mpaEnhanced}} {
		if f.on {
			flags |= f.mask
		}
	}
	if m.Enhanced {
		n += mpaWordsSize
	}
	b = append(b, key...)
	b = append(b, flags, m.Revision)
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	if m.Enhanced {
		b = binary.BigEndian.AppendUint16(b, mpaWord(m.IRD, m.P2P, m.RTRSend))
		b = binary.BigEndian.AppendUint16(b, mpaWord(m.ORD, m.RTRWrite, m.RTRRead))
	}
	return append(b, m.Private...)
}

func mpaWord(v uint16, high, low bool) uint16 {
	v &= wordValue
	if high {
		v |= wordHigh
	}
	if low {
		v |= wordLow
	}
	return v
}

// ParseMPA reads the MPAHeaderSize bytes of a frame's header. PrivateSize bytes
// follow, to be given to ParsePrivate. Errors wrap ErrNotMPA or ErrMPA.
func ParseMPA(b []byte, reply bool) (*MPA, error) {
	want := requestKey
	if reply {
		want = replyKey
	}
	if len(b) < MPAHeaderSize || string(b[:len(want)]) != want {
		return nil, fmt.Errorf("%w: it begins with %.16q", ErrNotMPA, b)
	}
	flags := b[16]
	m := &MPA{Reply: reply, Revision: b[17], privateSz: int(binary.BigEndian.Uint16(b[18:])),
		Markers: flags&mpaMarkers != 0, CRC: flags&mpaCRC != 0, Reject: flags&mpaReject != 0}
	m.Enhanced = flags&mpaEnhanced != 0 && m.Revision == 2
	switch {
	case m.Revision > 2:
		return m, fmt.Errorf("%w: revision %d, expected at most 2", ErrMPA, m.Revision)
	case m.privateSz > MaxMPAPrivate:
		return m, fmt.Errorf("%w: %d bytes of private data, at most %d are allowed", ErrMPA, m.privateSz, MaxMPAPrivate)
	case m.Enhanced && m.privateSz < mpaWordsSize:
		return m, fmt.Errorf("%w: enhanced, but without IRD and ORD", ErrMPA)
	}
	return m, nil
}

// PrivateSize is the size of what follows the header: words and private data.
func (m *MPA) PrivateSize() int { return m.privateSz }

// ParsePrivate takes the PrivateSize bytes after the header; it keeps b.
func (m *MPA) ParsePrivate(b []byte) {
	if m.Enhanced {
		ird, ord := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
		m.IRD, m.P2P, m.RTRSend = ird&wordValue, ird&wordHigh != 0, ird&wordLow != 0
		m.ORD, m.RTRWrite, m.RTRRead = ord&wordValue, ord&wordHigh != 0, ord&wordLow != 0
		b = b[mpaWordsSize:]
	}
	m.Private = b
}
