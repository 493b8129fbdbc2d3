package nbd

import (
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// unhex is the bytes of a hex dump with spaces.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var requests = []struct {
	name     string
	extended bool
	wire     string
	want     header
}{
	{"read", false, "25609513 0004 0000 1122334455667788 0000000000001000 00000200",
		header{flags: cmdFlagDF, cmd: cmdRead, cookie: 0x1122334455667788, offset: 4096, length: 512}},
	{"write", false, "25609513 0001 0001 0000000000000001 0000000000000000 ffffffff",
		header{flags: cmdFlagFUA, cmd: cmdWrite, cookie: 1, length: math.MaxUint32, payload: math.MaxUint32}},
	{"unknown command has no payload", false, "25609513 0000 0063 0000000000000001 0000000000000000 00001000",
		header{cmd: 99, cookie: 1, length: 4096}},
	{"payload flag means nothing in compact requests", false, "25609513 0020 0000 0000000000000001 0000000000000000 00001000",
		header{flags: cmdFlagPayloadLen, cmd: cmdRead, cookie: 1, length: 4096}},
	{"extended trim", true, "21e41c71 0000 0004 0000000000000002 8000000000000000 ffffffffffffffff",
		header{cmd: cmdTrim, cookie: 2, offset: 1 << 63, length: math.MaxUint64}},
	{"extended write", true, "21e41c71 0020 0001 0000000000000002 0000000000000000 ffffffffffffffff",
		header{flags: cmdFlagPayloadLen, cmd: cmdWrite, cookie: 2, length: math.MaxUint64, payload: math.MaxUint64}},
	{"extended write without payload", true, "21e41c71 0000 0001 0000000000000002 0000000000000000 0000000000000200",
		header{cmd: cmdWrite, cookie: 2, length: 512}},
	{"any extended command may have a payload", true, "21e41c71 0020 0000 0000000000000002 0000000000000000 0000000000000003",
		header{flags: cmdFlagPayloadLen, cmd: cmdRead, cookie: 2, length: 3, payload: 3}},
	{"block status with contexts", true, "21e41c71 0020 0007 0000000000000002 0000000000001000 000000000000000c 0000000100000000 00000001",
		header{flags: cmdFlagPayloadLen, cmd: cmdBlockStatus, cookie: 2, offset: 4096, length: 1 << 32, contexts: true}},
	{"block status with a wrong context", true, "21e41c71 0020 0007 0000000000000002 0000000000001000 000000000000000c 0000000100000000 00000007",
		header{flags: cmdFlagPayloadLen, cmd: cmdBlockStatus, cookie: 2, offset: 4096, length: 1 << 32}},
	{"block status with another payload", true, "21e41c71 0020 0007 0000000000000002 0000000000001000 0000000000000010",
		header{flags: cmdFlagPayloadLen, cmd: cmdBlockStatus, cookie: 2, offset: 4096, length: 16, payload: 16}},
}

// Every request decodes as the protocol has it, and only when all of it is there.
func TestParseRequest(t *testing.T) {
	for _, tt := range requests {
		wire := unhex(t, tt.wire)
		for n := range wire {
			if _, k, err := parseRequest(wire[:n], tt.extended); k != 0 || err != nil {
				t.Fatalf("%s: %d bytes: took %d, %v", tt.name, n, k, err)
			}
		}
		got, n, err := parseRequest(append(wire, 0x25, 0x60), tt.extended)
		if err != nil || n != len(wire) {
			t.Fatalf("%s: took %d of %d bytes, %v", tt.name, n, len(wire), err)
		}
		if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(header{})); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

// A wrong magic number is noticed as soon as it is there, and in the other form.
func TestParseRequestMagic(t *testing.T) {
	for _, tt := range requests {
		wire := unhex(t, tt.wire)
		if _, _, err := parseRequest(wire, !tt.extended); !errors.Is(err, errBadMagic) {
			t.Errorf("%s in the other mode: %v", tt.name, err)
		}
		wire[0] ^= 1
		if _, _, err := parseRequest(wire[:4], tt.extended); !errors.Is(err, errBadMagic) {
			t.Errorf("%s with a flipped bit: %v", tt.name, err)
		}
	}
}

// What is parsed and accepted stays within the export and the limits, whatever
// the client sends.
func FuzzRequest(f *testing.F) {
	for _, tt := range requests {
		f.Add(unhex(f, tt.wire), tt.extended)
	}
	f.Fuzz(func(t *testing.T, b []byte, extended bool) {
		h, n, err := parseRequest(b, extended)
		if n > len(b) || err != nil && n != 0 {
			t.Fatalf("took %d of %d bytes, %v", n, len(b), err)
		}
		if n == 0 {
			return
		}
		mode := modeStructured
		if extended {
			mode = modeExtended
		}
		s := testSession(mode, func(d *DeviceInfo) { d.MinBlock = 512 })
		if s.check(&h) != 0 || h.cmd == cmdFlush {
			return
		}
		if h.length == 0 || h.offset > s.info.Size || h.length > s.info.Size-h.offset || (h.offset|h.length)%512 != 0 {
			t.Errorf("accepted %+v", h)
		}
		if (h.cmd == cmdRead || h.cmd == cmdWrite) && h.length > maxPayload {
			t.Errorf("accepted %+v", h)
		}
		if h.cmd == cmdWrite && h.payload != h.length || h.cmd != cmdWrite && h.payload != 0 {
			t.Errorf("accepted %+v", h)
		}
	})
}

// testSession is a session on a device of 1 GiB that supports everything.
func testSession(mode replyMode, change func(*DeviceInfo)) *session {
	d := DeviceInfo{Size: 1 << 30, MaxTransfer: 1 << 20, Flush: true, FUA: true, Trim: true, WriteZeroes: true, FastZero: true}
	change(&d)
	d, err := d.normalize()
	if err != nil {
		panic(err)
	}
	meta := mode != modeSimple
	return &session{info: d, mode: mode, metadata: meta, flags: transmissionFlags(&d, mode, meta)}
}
