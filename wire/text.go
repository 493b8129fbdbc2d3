package wire

import "strings"

// PutText fills an ASCII field of Identify Controller or of the discovery log page with s, padded with spaces. What is too long is cut off.
func PutText(field []byte, s string) {
	n := copy(field, s)
	for i := range field[n:] {
		field[n+i] = ' '
	}
}

// Text is the content of an ASCII field: without the spaces and NULs that pad it, and with '?' for bytes that are not printable
// ASCII, so that it can be shown whatever the peer sent.
func Text(field []byte) string {
	s := strings.TrimRight(string(field), " \x00")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}
