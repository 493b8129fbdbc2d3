package nbd

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testExports are what the transcripts in testdata/handshake talk to.
func testExports() []Export {
	return []Export{
		{Name: "first", Description: "a disk", Device: infoDevice{Size: 1 << 20, MaxTransfer: 1 << 20, Flush: true, FUA: true, Trim: true, WriteZeroes: true, MultiConn: true}},
		{Name: "second", Device: infoDevice{Size: 1<<40 + 1, MinBlock: 4096, MaxTransfer: 1 << 20, ReadOnly: true, Rotational: true}},
		{Name: "broken", Device: infoDevice{Size: 1 << 20, MinBlock: 1000, MaxTransfer: 1 << 20}},
	}
}

// infoDevice can be asked about but not opened.
type infoDevice DeviceInfo

func (d infoDevice) Info() DeviceInfo               { return DeviceInfo(d) }
func (d infoDevice) OpenQueue(Owner) (Queue, error) { panic("the handshake opens no queue") }

// transcript is a file of testdata/handshake: lines that begin with > are sent
// by the client, with < by the server, in hex and quoted strings; = is the
// state at the end, or the error.
type transcript struct {
	client, server []byte
	end            string
}

func readTranscript(t testing.TB, path string) (tr transcript) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		kind, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch kind {
		case ">":
			tr.client = append(tr.client, tokens(t, rest)...)
		case "<":
			tr.server = append(tr.server, tokens(t, rest)...)
		case "=":
			tr.end = rest
		}
	}
	return tr
}

// tokens is the bytes of hex numbers and quoted strings.
func tokens(t testing.TB, s string) []byte {
	t.Helper()
	var b []byte
	for i, part := range strings.Split(s, `"`) {
		if i%2 == 1 {
			b = append(b, part...)
		} else {
			b = append(b, unhex(t, part)...)
		}
	}
	return b
}

func transcripts(t testing.TB) map[string]transcript {
	t.Helper()
	paths, err := filepath.Glob("testdata/handshake/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	all := make(map[string]transcript)
	for _, p := range paths {
		all[strings.TrimSuffix(filepath.Base(p), ".txt")] = readTranscript(t, p)
	}
	return all
}

// play gives the machine the client's bytes in pieces that end at the cuts.
func play(client []byte, cuts ...int) (out []byte, end string) {
	h := newHandshake(testExports())
	var in []byte
	from := 0
	for _, cut := range append(cuts, len(client)) {
		in = append(in, client[from:cut]...)
		from = cut
		for h.state != negotiated && h.state != aborted {
			n, err := h.step(in)
			if err != nil {
				return h.out, "error " + strings.TrimPrefix(err.Error(), errHandshake.Error()+": ")
			}
			if n == 0 {
				break
			}
			in = in[n:]
		}
	}
	end = h.state.String()
	if h.state == negotiated {
		if h.session.mode != modeSimple {
			end += " " + h.session.mode.String()
		}
		if h.session.metadata {
			end += " metadata"
		}
	}
	return h.out, end
}

// Each transcript is answered to the byte, however the client's bytes arrive.
func TestHandshakeTranscripts(t *testing.T) {
	for name, tr := range transcripts(t) {
		check := func(how string, cuts ...int) {
			t.Helper()
			out, end := play(tr.client, cuts...)
			if end != tr.end {
				t.Fatalf("%s, %s: ended with %q, want %q", name, how, end, tr.end)
			}
			if !bytes.Equal(out, tr.server) {
				t.Fatalf("%s, %s: server sent\n%s, want\n%s", name, how, hex.Dump(out), hex.Dump(tr.server))
			}
		}
		check("whole")
		every := make([]int, len(tr.client))
		for i := range tr.client {
			every[i] = i
			check(fmt.Sprintf("cut at %d", i), i)
		}
		check("byte by byte", every...)
	}
}

// An option that is too long to hold is skipped and answered, and the next one
// is understood.
func TestHandshakeSkipsLongOption(t *testing.T) {
	in := append(unhex(t, "00000003"), option(optInfo, make([]byte, maxOption+1))...)
	in = append(in, option(optAbort, nil)...)
	out, end := play(in, 20, 30, 5000)
	if end != "aborted" {
		t.Fatalf("ended with %q", end)
	}
	out = out[greetingSize:]
	if got := binary.BigEndian.Uint32(out[12:]); got != repErrTooBig {
		t.Errorf("first reply is %#x", got)
	}
}

func option(opt uint32, data []byte) []byte {
	b := binary.BigEndian.AppendUint64(nil, optMagic)
	b = binary.BigEndian.AppendUint32(b, opt)
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	return append(b, data...)
}

// Whatever a client sends in its handshake: the machine keeps going forward,
// holds no more than it was given, and agrees only on what exists.
func FuzzHandshake(f *testing.F) {
	for _, tr := range transcripts(f) {
		f.Add(tr.client, uint16(len(tr.client)/2))
	}
	f.Fuzz(func(t *testing.T, client []byte, cut uint16) {
		whole, end := play(client)
		k := min(int(cut), len(client))
		if split, end2 := play(client, k); end != end2 || !bytes.Equal(whole, split) {
			t.Errorf("cut at %d: ended with %q, uncut with %q", k, end2, end)
		}
		if limit := 200 + len(client)*64; len(whole) > limit {
			t.Errorf("%d bytes of the client are answered with %d", len(client), len(whole))
		}
	})
}
