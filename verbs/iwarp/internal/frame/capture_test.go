package frame

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// capture reads a recorded connection: the bytes of the host and of the target.
func capture(t testing.TB, path string) (host, target []byte) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	s := bufio.NewScanner(z)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		line := s.Text()
		b, err := hex.DecodeString(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(line, "\t") {
			target = append(target, b...)
		} else {
			host = append(host, b...)
		}
	}
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
	return host, target
}

func captures(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob("../../testdata/siw-stream-*.txt.gz")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no captures: %v", err)
	}
	return paths
}

// Protects agreement with the kernel: every frame that Soft-iWARP sent is
// understood, and is made again with the same bytes.
func TestCaptures(t *testing.T) {
	for _, path := range captures(t) {
		host, target := capture(t, path)
		for i, stream := range [][]byte{host, target} {
			rest := mpaAgain(t, stream, i == 1)
			n := 0
			for ; len(rest) > 0; n++ {
				ulpdu, _ := Prefix(rest)
				fpdu := rest[:LengthSize+ulpdu+TrailerSize(ulpdu)]
				if again := fpduAgain(t, fpdu); !bytes.Equal(again, fpdu) {
					t.Fatalf("%s: FPDU %d:\n got %x\nwant %x", path, n, again, fpdu)
				}
				rest = rest[len(fpdu):]
			}
			if n < 2 {
				t.Errorf("%s: only %d FPDUs", path, n)
			}
		}
	}
}

func mpaAgain(t *testing.T, stream []byte, reply bool) (rest []byte) {
	t.Helper()
	m, err := ParseMPA(stream[:MPAHeaderSize], reply)
	if err != nil {
		t.Fatal(err)
	}
	n := MPAHeaderSize + m.PrivateSize()
	m.ParsePrivate(stream[MPAHeaderSize:n])
	if again := m.Append(nil); !bytes.Equal(again, stream[:n]) {
		t.Fatalf("MPA frame:\n got %x\nwant %x", again, stream[:n])
	}
	return stream[n:]
}

// fpduAgain parses an FPDU and encodes it again, without CRC.
func fpduAgain(t *testing.T, fpdu []byte) []byte {
	t.Helper()
	_, c := Prefix(fpdu)
	if code, ok := c.Check(); !ok {
		t.Fatalf("control word %#04x: %s", uint16(c), code)
	}
	var b []byte
	size, payload := c.HeaderSize(), 0
	switch {
	case c.Tagged():
		h, ok := ParseTagged(fpdu)
		if !ok {
			t.Fatal("tagged header refused")
		}
		b, payload = h.Append(b), h.Payload
	case c.Opcode() == OpReadRequest:
		r, _, ok := ParseReadRequest(fpdu)
		if !ok {
			t.Fatal("Read Request refused")
		}
		b = r.Append(b)
	default:
		h, ok := ParseUntagged(fpdu)
		if !ok {
			t.Fatal("untagged header refused")
		}
		b, payload = h.Append(b), h.Payload
	}
	return AppendTrailer(append(b, fpdu[size:size+payload]...), 0, false)
}
