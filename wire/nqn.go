package wire

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	// DiscoveryNQN is the well-known name of every discovery subsystem.
	DiscoveryNQN = "nqn.2014-08.org.nvmexpress.discovery"
	// UUIDNQNPrefix begins a name that is made of a UUID, as hosts have it.
	UUIDNQNPrefix = "nqn.2014-08.org.nvmexpress:uuid:"
	// MaxNQNLength is the longest NQN in bytes, without the NUL that ends it in its field.
	MaxNQNLength = 223
	// NQNFieldSize is the length in bytes of a field that holds an NQN.
	NQNFieldSize = 256
)

// ErrNQN is what every error of ValidNQN is.
var ErrNQN = errors.New("not a valid NQN")

// ValidNQN checks an NVMe Qualified Name (NVMe Base, NVMe Qualified Names): "nqn.yyyy-mm." and a reverse domain name, then optionally
// a colon and a string of the owner; UTF-8 without NUL or other control characters, at most MaxNQNLength bytes. Its error wraps ErrNQN.
func ValidNQN(nqn string) error {
	switch {
	case nqn == "":
		return fmt.Errorf("%w: empty", ErrNQN)
	case len(nqn) > MaxNQNLength:
		return fmt.Errorf("%w: %d bytes long, at most %d are allowed", ErrNQN, len(nqn), MaxNQNLength)
	case !utf8.ValidString(nqn):
		return fmt.Errorf("%w: %q is not UTF-8", ErrNQN, nqn)
	case strings.ContainsFunc(nqn, func(r rune) bool { return r < ' ' || r == 0x7F }):
		return fmt.Errorf("%w: %q has a control character", ErrNQN, nqn)
	}
	rest, ok := strings.CutPrefix(nqn, "nqn.")
	if !ok || len(rest) < len("yyyy-mm.x") || !isYearMonth(rest[:7]) || rest[7] != '.' {
		return fmt.Errorf("%w: %q does not begin with nqn.yyyy-mm. and a domain name", ErrNQN, nqn)
	}
	if domain, _, _ := strings.Cut(rest[8:], ":"); domain == "" {
		return fmt.Errorf("%w: %q has no domain name", ErrNQN, nqn)
	}
	return nil
}

// isYearMonth wants "yyyy-mm" with a month of 01 to 12.
func isYearMonth(s string) bool {
	for i := range len(s) {
		if i == 4 && s[i] != '-' || i != 4 && (s[i] < '0' || s[i] > '9') {
			return false
		}
	}
	return s[5:] >= "01" && s[5:] <= "12"
}

// NQNField is an NQN as messages hold it: the name, a NUL, and zeros.
type NQNField [NQNFieldSize]byte

// MakeNQNField puts a name into a field. What is longer than the field less its NUL is cut off, so check with ValidNQN first.
func MakeNQNField(nqn string) NQNField {
	var f NQNField
	copy(f[:NQNFieldSize-1], nqn)
	return f
}

// Valid is the name in the field, or ValidNQN's error about it; a field without a NUL has no valid name.
func (f *NQNField) Valid() (string, error) {
	nqn := f.String()
	return nqn, ValidNQN(nqn)
}

// String is the name up to the first NUL, or the whole field if it has none. It may be anything that a peer sent; see Valid.
func (f *NQNField) String() string {
	if i := bytes.IndexByte(f[:], 0); i >= 0 {
		return string(f[:i])
	}
	return string(f[:])
}
