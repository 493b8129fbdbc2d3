package wiretest

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// A Side is one of the two peers.
type Side int

// The sides.
const (
	Host Side = iota
	Target
)

func (s Side) String() string {
	if s == Host {
		return "host"
	}
	return "target"
}

// A Half is what one side sent.
type Half struct {
	Bytes []byte // everything, from the MPA frame on
	MPA   MPAFrame
	FPDUs []FPDU
}

// A Stream is one recorded iWARP connection.
type Stream struct {
	Halves   [2]Half   // by Side
	Messages []Message // of both sides, in the order of their last bytes
}

// LoadStream reads a stream file, compressed with gzip if its name ends in ".gz".
func LoadStream(path string) (*Stream, error) { return load(path, ReadStream) }

// A segment says that the bytes of a half up to end had arrived with line number line.
type segment struct{ end, line int }

// ReadStream reads the text of a stream file.
func ReadStream(r io.Reader) (*Stream, error) {
	var s Stream
	var segments [2][]segment
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for line := 1; lines.Scan(); line++ {
		text, fromTarget := strings.CutPrefix(lines.Text(), "\t")
		side := Host
		if fromTarget {
			side = Target
		}
		b, err := hex.DecodeString(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		half := &s.Halves[side]
		half.Bytes = append(half.Bytes, b...)
		segments[side] = append(segments[side], segment{end: len(half.Bytes), line: line})
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	for side := range s.Halves {
		if err := s.Halves[side].cut(segments[side]); err != nil {
			return nil, fmt.Errorf("%s: %w", Side(side), err)
		}
	}
	messages, err := reassemble(s.Halves)
	s.Messages = messages
	return &s, err
}
