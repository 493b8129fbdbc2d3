package perf_test

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rbd/verbs/perf"
)

// message is what all of them can do.
type message interface {
	Append([]byte) []byte
	Parse([]byte) error
}

// golden reads a message's bytes from testdata.
func golden(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Protects the bytes on the wire: programs of different builds measure together.
func TestMessages(t *testing.T) {
	for _, tt := range []struct {
		name  string
		msg   message
		empty func() message
	}{
		{"request", &perf.Request{Op: perf.WriteLat, Poll: true, Size: 4096, Seconds: 600, RKey: 0x89abcdef, Addr: 0x7f0012345678}, func() message { return new(perf.Request) }},
		{"reply", &perf.Reply{RKey: 0x89abcdef, Size: 8 << 20, Addr: 0x7f0012345678}, func() message { return new(perf.Reply) }},
		{"reject", &perf.Reject{Reason: perf.ReasonBusy}, func() message { return new(perf.Reject) }},
	} {
		want := golden(t, tt.name)
		if got := tt.msg.Append([]byte{1, 2}); !bytes.Equal(got[2:], want) {
			t.Errorf("%s is written as\n%x, want\n%x", tt.name, got[2:], want)
		}
		// InfiniBand pads private data with zeros.
		got := tt.empty()
		if err := got.Parse(append(want[:len(want):len(want)], make([]byte, 16)...)); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if again := got.Append(nil); !bytes.Equal(again, want) {
			t.Errorf("%s reads back as\n%x", tt.name, again)
		}
		for n := range want {
			if tt.empty().Parse(want[:n]) == nil {
				t.Errorf("%s: %d of %d bytes were taken", tt.name, n, len(want))
			}
		}
		for i := range 8 {
			bad := bytes.Clone(want)
			bad[i] ^= 1
			if tt.empty().Parse(bad) == nil {
				t.Errorf("%s: taken with byte %d changed", tt.name, i)
			}
		}
		if len(want) > 56 {
			t.Errorf("%s has %d bytes; InfiniBand's request has room for 56", tt.name, len(want))
		}
	}
}

// Protects the server's memory and time: what is asked of it has bounds.
func TestRequestCheck(t *testing.T) {
	good := perf.Request{Op: perf.WriteLat, Size: 1, Seconds: 1, Addr: 1<<64 - 2}
	for _, tt := range []struct {
		change func(*perf.Request)
		want   perf.Reason
	}{
		{func(*perf.Request) {}, 0},
		{func(r *perf.Request) { r.Op = 0 }, perf.ReasonOp},
		{func(r *perf.Request) { r.Op = perf.WriteLat + 1 }, perf.ReasonOp},
		{func(r *perf.Request) { r.Op = 255 }, perf.ReasonOp},
		{func(r *perf.Request) { r.Size = 0 }, perf.ReasonSize},
		{func(r *perf.Request) { r.Size, r.Addr = perf.MaxSize, 0 }, 0},
		{func(r *perf.Request) { r.Size, r.Addr = perf.MaxSize+1, 0 }, perf.ReasonSize},
		{func(r *perf.Request) { r.Size, r.Addr = 1<<32-1, 0 }, perf.ReasonSize},
		{func(r *perf.Request) { r.Seconds = 0 }, perf.ReasonTime},
		{func(r *perf.Request) { r.Seconds = 3600 }, 0},
		{func(r *perf.Request) { r.Seconds = 3601 }, perf.ReasonTime},
		{func(r *perf.Request) { r.Seconds = 1<<32 - 1 }, perf.ReasonTime},
		{func(r *perf.Request) { r.Addr = 1<<64 - 1 }, perf.ReasonAddr},
	} {
		r := good
		tt.change(&r)
		if got := r.Check(); got != tt.want {
			t.Errorf("%+v: %v, want %v", r, got, tt.want)
		}
	}
}

// Protects users from a refusal without words.
func TestReasons(t *testing.T) {
	seen := map[string]bool{}
	for r := perf.ReasonMalformed; r <= perf.ReasonResources; r++ {
		text := r.Error()
		if seen[text] || strings.Contains(text, "reason ") || strings.Contains(text, "\n") {
			t.Errorf("reason %d: %q", uint32(r), text)
		}
		seen[text] = true
	}
	for _, r := range []perf.Reason{0, perf.ReasonResources + 1, 1<<32 - 1} {
		if !strings.Contains(r.Error(), "reason ") {
			t.Errorf("unknown reason %d: %q", uint32(r), r.Error())
		}
	}
}

// Protects both ends from whatever a peer puts into private data: nothing panics,
// and what is taken is written again as it was.
func FuzzMessages(f *testing.F) {
	for _, m := range []message{
		&perf.Request{Op: perf.WriteBW, Size: 1, Seconds: 1}, &perf.Request{Op: perf.WriteLat, Size: 1 << 31, Addr: 1<<64 - 1, Poll: true},
		&perf.Reply{RKey: 1, Size: 2, Addr: 3}, &perf.Reject{Reason: perf.ReasonOp},
	} {
		f.Add(m.Append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var req perf.Request
		if req.Parse(b) == nil && req.Check() == 0 && (req.Size > perf.MaxSize || req.Addr+uint64(req.Size) < req.Addr && req.Op == perf.WriteLat) {
			t.Errorf("%+v was found good", req)
		}
		for _, m := range []message{&req, new(perf.Reply), new(perf.Reject)} {
			if m.Parse(b) != nil {
				continue
			}
			again := m.Append(nil)
			_, isRequest := m.(*perf.Request)
			if isRequest { // its reserved bytes are not kept
				again = append(append(again[:10:10], b[10:12]...), again[12:32]...)
			}
			if !bytes.HasPrefix(b, again) {
				t.Errorf("%T of %x is written as %x", m, b, again)
			}
		}
	})
}
