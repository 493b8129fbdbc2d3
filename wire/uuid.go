package wire

import (
	"encoding/hex"
	"fmt"
)

// A UUID is a host identifier or a namespace's UUID or NGUID, in the byte order of RFC 9562, which is also that of the wire.
type UUID [16]byte

// ParseUUID reads the form 8-4-4-4-12 of hexadecimal digits, or 32 digits without hyphens.
func ParseUUID(text string) (UUID, error) {
	var u UUID
	digits := text
	if len(text) == 36 && text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-' {
		digits = text[:8] + text[9:13] + text[14:18] + text[19:23] + text[24:]
	}
	if len(digits) != 2*len(u) {
		return UUID{}, fmt.Errorf("%q is not a UUID: want 8-4-4-4-12 hexadecimal digits", text)
	}
	if _, err := hex.Decode(u[:], []byte(digits)); err != nil {
		return UUID{}, fmt.Errorf("%q is not a UUID: %w", text, err)
	}
	return u, nil
}

// IsZero says that no identifier is there.
func (u UUID) IsZero() bool { return u == UUID{} }

// String is the form 8-4-4-4-12.
func (u UUID) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}
