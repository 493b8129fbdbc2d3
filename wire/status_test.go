package wire_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"rbd/wire"
)

// The words are what users read in an error; the exact code must be in them.
func TestStatusWords(t *testing.T) {
	for _, c := range []struct {
		status  wire.Status
		text    string
		fabrics string
	}{
		{wire.StatusLBAOutOfRange.WithDNR(), "LBA out of range (0x080), do not retry", "LBA out of range (0x080), do not retry"},
		{wire.StatusInvalidField | wire.StatusMore, "invalid field in command (0x002), more in the error log", "invalid field in command (0x002), more in the error log"},
		{wire.StatusConnectInvalidHost, "connect invalid host (0x184)", "connect invalid host (0x184)"},
		{wire.StatusConnectControllerBusy, "invalid protection information or connect controller busy (0x181)", "connect controller busy (0x181)"},
		{wire.StatusCompareFailure, "compare failure (0x285)", "compare failure (0x285)"},
		{wire.StatusHostAborted, "command aborted by host (0x371)", "command aborted by host (0x371)"},
		{0x07F, "unknown generic status (0x07f)", "unknown generic status (0x07f)"},
		{0x1FF, "unknown command specific status (0x1ff)", "unknown command specific status (0x1ff)"},
		{0x2FF, "unknown media error (0x2ff)", "unknown media error (0x2ff)"},
		{0x3FF, "unknown path error (0x3ff)", "unknown path error (0x3ff)"},
		{0x4FF, "unknown status type (0x4ff)", "unknown status type (0x4ff)"},
		{0x7FF, "vendor specific status (0x7ff)", "vendor specific status (0x7ff)"},
	} {
		if got := c.status.Error(); got != c.text {
			t.Errorf("0x%x is %q, want %q", uint16(c.status), got, c.text)
		}
		if got := c.status.FabricsString(); got != c.fabrics {
			t.Errorf("0x%x of a Fabrics command is %q, want %q", uint16(c.status), got, c.fabrics)
		}
	}
}

// Programs decide by errors.Is, which must not care for the retry bits, nor mix up types of status.
func TestStatusAsError(t *testing.T) {
	err := fmt.Errorf("read: %w", wire.StatusLBAOutOfRange.WithDNR()|wire.StatusMore)
	if !errors.Is(err, wire.StatusLBAOutOfRange) {
		t.Error("the status is not found with DNR and More set")
	}
	if errors.Is(err, wire.StatusConflictingAttributes) || errors.Is(err, errors.New("x")) {
		t.Error("another status is found")
	}
	if wire.StatusSuccess.WithDNR().Err() != nil || !wire.StatusSuccess.OK() {
		t.Error("success is an error")
	}
	if wire.StatusInvalidField.Err() != error(wire.StatusInvalidField) {
		t.Error("an error is none")
	}
	s := wire.Status(0x7A85)
	if s.SC() != 0x85 || s.SCT() != wire.SCTMedia || s.CRD() != 3 || !s.More() || !s.DNR() || s.Code() != wire.StatusCompareFailure {
		t.Errorf("fields of 0x7a85 are SC 0x%x SCT %d CRD %d More %t DNR %t", s.SC(), s.SCT(), s.CRD(), s.More(), s.DNR())
	}
}

// Every status with a name has words of its own: two alike would send people to the wrong cause.
func TestStatusNames(t *testing.T) {
	names := map[string]wire.Status{}
	for code := range wire.Status(0x800) {
		words, _, _ := strings.Cut(code.String(), " (")
		if strings.HasPrefix(words, "unknown ") || strings.HasPrefix(words, "vendor ") {
			continue
		}
		if other, ok := names[words]; ok {
			t.Errorf("0x%x and 0x%x are both %q", uint16(other), uint16(code), words)
		}
		names[words] = code
	}
	if want := 41 + 31 + 8 + 9 + 7; len(names) != want {
		t.Errorf("%d statuses have a name, want %d", len(names), want)
	}
}
