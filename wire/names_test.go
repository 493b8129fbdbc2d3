package wire_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"rbd/wire"
)

// Names come from users and from peers: what is no NQN must be refused before it is compared, printed or used in a path.
func TestValidNQN(t *testing.T) {
	for nqn, valid := range map[string]bool{
		wire.DiscoveryNQN:                                           true,
		"nqn.2026-11.io.rbd:disk":                                   true,
		"nqn.2026-11.io.rbd:Scheibe-ä":                              true,
		wire.UUIDNQNPrefix + "11111111-2222-3333-4444-555555555555": true,
		"nqn.2026-11.x" + strings.Repeat("y", wire.MaxNQNLength-13): true,
		"nqn.2026-11.x" + strings.Repeat("y", wire.MaxNQNLength-12): false,
		"":                        false,
		"nqn.":                    false,
		"nqn.2026-11":             false,
		"nqn.2026-11.":            false,
		"nqn.2026-11.:disk":       false,
		"nqn.2026-13.io.rbd":      false,
		"nqn.2026-00.io.rbd":      false,
		"nqn.2o26-11.io.rbd":      false,
		"nqn.2026/11.io.rbd":      false,
		"nqn.2026-1a.io.rbd":      false,
		"nqn.2026-11xio.rbd":      false,
		"NQN.2026-11.io.rbd":      false,
		"iqn.2026-11.io.rbd":      false,
		"nqn.2026-11.io.rbd:\x00": false,
		"nqn.2026-11.io.rbd:a\nb": false,
		"nqn.2026-11.io.rbd:\x7f": false,
		"nqn.2026-11.io.rbd:\xff": false,
	} {
		err := wire.ValidNQN(nqn)
		if (err == nil) != valid {
			t.Errorf("%q: %v", nqn, err)
		}
		if err != nil && !errors.Is(err, wire.ErrNQN) {
			t.Errorf("%q: the error is not ErrNQN: %v", nqn, err)
		}
		f := wire.MakeNQNField(nqn)
		if got, err := f.Valid(); valid && (err != nil || got != nqn) {
			t.Errorf("%q comes back from its field as %q, %v", nqn, got, err)
		}
	}
	var full wire.NQNField
	copy(full[:], "nqn.2026-11.io.rbd:"+strings.Repeat("a", wire.NQNFieldSize))
	if _, err := full.Valid(); err == nil {
		t.Error("a field without a NUL is valid")
	}
}

func TestUUID(t *testing.T) {
	const text = "0d155e58-787f-4424-945d-c3ee523eb6ae"
	for _, form := range []string{text, strings.ToUpper(text), strings.ReplaceAll(text, "-", "")} {
		u, err := wire.ParseUUID(form)
		if err != nil || u.String() != text || u.IsZero() {
			t.Errorf("%q is %s, %v", form, u, err)
		}
	}
	for _, form := range []string{"", text[1:], text + "0", strings.Replace(text, "-", "_", 1), strings.Replace(text, "0d", "0g", 1)} {
		if u, err := wire.ParseUUID(form); err == nil {
			t.Errorf("%q is %s", form, u)
		}
	}
}

// What a peer puts into a text field may reach a terminal: only printable ASCII may.
func TestText(t *testing.T) {
	field := make([]byte, 8)
	wire.PutText(field, "4420")
	if string(field) != "4420    " || wire.Text(field) != "4420" {
		t.Errorf("field is %q, its text %q", field, wire.Text(field))
	}
	wire.PutText(field, "too long for it")
	if string(field) != "too long" {
		t.Errorf("field is %q", field)
	}
	if got := wire.Text([]byte("a\x1b[1m\xff\x00 \x00")); got != "a?[1m?" {
		t.Errorf("text is %q", got)
	}
}

func TestUint128(t *testing.T) {
	if got := (wire.Uint128{Lo: 5, Hi: 1}).String(); got != "18446744073709551621" {
		t.Errorf("2^64 + 5 is %s", got)
	}
}

// Every named value of an enumeration has words, and every other one its number, so that no message ends in an empty name.
func TestEnumerationNames(t *testing.T) {
	for _, e := range []struct {
		unknown string
		named   int
		name    func(uint8) fmt.Stringer
	}{
		{"admin opcode", 30, func(v uint8) fmt.Stringer { return wire.AdminOpcode(v) }},
		{"i/o opcode", 15, func(v uint8) fmt.Stringer { return wire.IOOpcode(v) }},
		{"fabrics type", 6, func(v uint8) fmt.Stringer { return wire.FabricsType(v) }},
		{"CNS", 13, func(v uint8) fmt.Stringer { return wire.CNS(v) }},
		{"log page", 15, func(v uint8) fmt.Stringer { return wire.LogID(v) }},
		{"feature", 23, func(v uint8) fmt.Stringer { return wire.FeatureID(v) }},
		{"SGL type", 7, func(v uint8) fmt.Stringer { return wire.SGLType(v) }},
		{"SGL subtype", 3, func(v uint8) fmt.Stringer { return wire.SGLSubtype(v) }},
		{"property", 6, func(v uint8) fmt.Stringer { return wire.Property(v) }},
		{"reject reason", 9, func(v uint8) fmt.Stringer { return wire.RejectReason(v) }},
		{"ANA state", 5, func(v uint8) fmt.Stringer { return wire.ANAState(v) }},
		{"trtype", 4, func(v uint8) fmt.Stringer { return wire.TransportType(v) }},
		{"adrfam", 5, func(v uint8) fmt.Stringer { return wire.AddressFamily(v) }},
		{"subtype", 3, func(v uint8) fmt.Stringer { return wire.SubsystemType(v) }},
		{"qptype", 2, func(v uint8) fmt.Stringer { return wire.RDMAQPType(v) }},
		{"prtype", 5, func(v uint8) fmt.Stringer { return wire.RDMAProvider(v) }},
		{"controller type", 4, func(v uint8) fmt.Stringer { return wire.ControllerType(v) }},
		{"event type", 6, func(v uint8) fmt.Stringer { return wire.AsyncEventType(v) }},
		{"shutdown notification", 3, func(v uint8) fmt.Stringer { return wire.ShutdownNotification(v) }},
		{"shutdown status", 3, func(v uint8) fmt.Stringer { return wire.ShutdownStatus(v) }},
		{"cms", 1, func(v uint8) fmt.Stringer { return wire.RDMACMS(v) }},
	} {
		names := map[string]bool{}
		named := 0
		for v := range 256 {
			name := e.name(uint8(v)).String()
			if names[name] || name == "" {
				t.Errorf("%s %d has the name %q twice", e.unknown, v, name)
			}
			names[name] = true
			if !strings.HasPrefix(name, e.unknown+" ") {
				named++
			}
		}
		if named != e.named {
			t.Errorf("%s: %d values have a name, want %d", e.unknown, named, e.named)
		}
	}
	for treq, want := range map[wire.TransportRequirements]string{
		0: "not specified", 1: "required", 2: "not required", 3: "reserved", 4: "not specified, sq flow control disable supported",
	} {
		if got := treq.String(); got != want {
			t.Errorf("treq %d is %q, want %q", treq, got, want)
		}
	}
	if got := wire.RejectNoResources.Error(); got != "no resources" {
		t.Errorf("reject reason 6 is %q", got)
	}
}
