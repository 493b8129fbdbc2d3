package wire_test

import (
	"bytes"
	"errors"
	"reflect"
	"testing"

	"rbd/wire"
)

// kinds makes one empty message of each type, by name.
func kinds() map[string]func() message {
	return map[string]func() message{
		"ANALog":                       func() message { return new(wire.ANALog) },
		"CMReject":                     func() message { return new(wire.CMReject) },
		"CMReply":                      func() message { return new(wire.CMReply) },
		"CMRequest":                    func() message { return new(wire.CMRequest) },
		"CQE":                          func() message { return new(wire.CQE) },
		"CommandEffectsLog":            func() message { return new(wire.CommandEffectsLog) },
		"ConnectData":                  func() message { return new(wire.ConnectData) },
		"DSMRange":                     func() message { return new(wire.DSMRange) },
		"DiscoveryLogEntry":            func() message { return new(wire.DiscoveryLogEntry) },
		"DiscoveryLogHeader":           func() message { return new(wire.DiscoveryLogHeader) },
		"ErrorLogEntry":                func() message { return new(wire.ErrorLogEntry) },
		"FirmwareSlotLog":              func() message { return new(wire.FirmwareSlotLog) },
		"HostBehavior":                 func() message { return new(wire.HostBehavior) },
		"IdentifyController":           func() message { return new(wire.IdentifyController) },
		"IdentifyIndependentNamespace": func() message { return new(wire.IdentifyIndependentNamespace) },
		"IdentifyNVMController":        func() message { return new(wire.IdentifyNVMController) },
		"IdentifyNamespace":            func() message { return new(wire.IdentifyNamespace) },
		"NSDescriptors":                func() message { return new(wire.NSDescriptors) },
		"NSList":                       func() message { return new(wire.NSList) },
		"SGL":                          func() message { return new(wire.SGL) },
		"SQE":                          func() message { return new(wire.SQE) },
		"SmartLog":                     func() message { return new(wire.SmartLog) },
		"Timestamp":                    func() message { return new(wire.Timestamp) },
	}
}

// size is the length of a message's encoding.
func size(m message) int { return len(m.Append(nil)) }

// exact are the types whose every bit is in a field: they encode to the very bytes that they were parsed from.
var exact = map[string]bool{"CMReject": true, "CMReply": true, "CMRequest": true, "CQE": true, "DSMRange": true, "SGL": true, "SQE": true, "Timestamp": true}

// roundTrip parses b as every type that takes it, and wants parse, append and parse again to agree.
func roundTrip(t *testing.T, b []byte) {
	for name, empty := range kinds() {
		first, second := empty(), empty()
		if first.Parse(b) != nil {
			continue
		}
		encoded := first.Append(nil)
		if exact[name] && !bytes.Equal(encoded, b[:len(encoded)]) {
			t.Errorf("%s: %x encodes to %x", name, b, encoded)
		}
		if err := second.Parse(encoded); err != nil {
			t.Errorf("%s: own encoding: %v", name, err)
			continue
		}
		if !reflect.DeepEqual(first, second) {
			t.Errorf("%s: parsed again it is\n%+v, was\n%+v", name, second, first)
		}
		if again := second.Append([]byte("x")); !bytes.Equal(again[1:], encoded) {
			t.Errorf("%s: encodes differently the second time", name)
		}
	}
}

// FuzzMessages holds every parser to its encoder, whatever the bytes are; no input may make one panic. Where an encoding and its reparsing differ, a field has two offsets.
func FuzzMessages(f *testing.F) {
	for _, r := range recordings(f) {
		for _, half := range r.stream.Halves {
			f.Add(half.MPA.PrivateData)
		}
		for _, e := range r.exchanges {
			f.Add(e.Capsule[:wire.SQESize])
			f.Add(e.Capsule[24:40])
			f.Add(e.RawResponse)
			if r.admin && len(e.DataIn) > 0 {
				f.Add(e.DataIn)
			}
		}
		f.Add(r.exchanges[0].DataOut)
	}
	for _, empty := range kinds() {
		f.Add(empty().Append(nil))
		f.Add(bytes.Repeat([]byte{0xFF}, size(empty())))
	}
	f.Fuzz(roundTrip)
}

// FuzzCommands holds every view of a command to its builder, and wants a text of any command: peers send what they like.
func FuzzCommands(f *testing.F) {
	for _, r := range recordings(f) {
		for _, e := range r.exchanges {
			f.Add(e.Capsule[:wire.SQESize])
		}
	}
	f.Add(bytes.Repeat([]byte{0xFF}, wire.SQESize))
	f.Fuzz(func(t *testing.T, b []byte) {
		var s wire.SQE
		if s.Parse(b) != nil {
			return
		}
		if (*wire.AdminSQE)(&s).String() == "" || (*wire.IOSQE)(&s).String() == "" {
			t.Error("no text")
		}
		for _, admin := range []bool{true, false} {
			again, known := rebuild(&s, admin)
			if !known {
				continue
			}
			twice, _ := rebuild(&again, admin)
			if again != twice {
				t.Errorf("view of %+v is %+v", again, twice)
			}
		}
		if g := wire.ParseGetLogPage(&s); g.Bytes() > 0 {
			if n, ok := g.Window(1 << 20); ok && (n > 1<<20 || g.LPO+n > 1<<20) {
				t.Errorf("window of %d bytes from %d on leaves the page", n, g.LPO)
			}
		}
		if size := uint64(1 << 30); wire.InRange(s.SLBA(), s.Blocks(), size) && s.SLBA()+uint64(s.Blocks())-1 >= size {
			t.Errorf("block %d is in a namespace of %d", s.SLBA()+uint64(s.Blocks())-1, size)
		}
	})
}

// A message of another length is refused with its name and lengths, never read beyond its end.
func TestSizes(t *testing.T) {
	atLeast := map[string]int{"CMReject": 4, "CMReply": 32, "CMRequest": 32, "ANALog": 16, "DiscoveryLogHeader": 20}
	for name, empty := range kinds() {
		m := empty()
		whole := m.Append(nil)
		if err := m.Parse(whole); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		least, padded := atLeast[name]
		if !padded {
			least = len(whole)
		}
		for n := range least {
			if m.Parse(whole[:n:n]) == nil {
				t.Errorf("%s: %d bytes are accepted, want %d", name, n, least)
			}
		}
		if err := m.Parse(append(whole, 0)); (err == nil) != padded {
			t.Errorf("%s: with a byte more: %v", name, err)
		}
	}
}

func TestSizeError(t *testing.T) {
	err := new(wire.CQE).Parse(make([]byte, 17))
	var size *wire.SizeError
	if !errors.As(err, &size) || size.Got != 17 || size.Want != wire.CQESize {
		t.Fatalf("error is %#v", err)
	}
	if want := "completion queue entry has 17 bytes, want 16"; err.Error() != want {
		t.Errorf("error is %q, want %q", err, want)
	}
}
