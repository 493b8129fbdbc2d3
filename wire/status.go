package wire

import "fmt"

// A Status is the Status Field of a completion queue entry without its phase tag (NVMe Base, Status Field): bits 7:0 SC, 10:8 SCT, 12:11 CRD,
// 13 More, 14 Do Not Retry. It is an error in words; use Err to get nil for success.
type Status uint16

// The fields of a Status.
const (
	StatusSC   Status = 0x00FF // status code
	StatusSCT  Status = 0x0700 // status code type
	StatusCRD  Status = 0x1800 // command retry delay
	StatusMore Status = 0x2000 // the error log page has more
	StatusDNR  Status = 0x4000 // do not retry: the same command would fail again
)

// The status code types, the values of Status.SCT.
const (
	SCTGeneric         = 0
	SCTCommandSpecific = 1
	SCTMedia           = 2
	SCTPath            = 3
	SCTVendor          = 7
)

// Code is the status code type and the status code alone, to compare with the constants: CRD, More and DNR are cleared.
func (s Status) Code() Status { return s & (StatusSCT | StatusSC) }

// SC is the status code, which means something within its type only.
func (s Status) SC() uint8 { return uint8(s & StatusSC) }

// SCT is the status code type.
func (s Status) SCT() uint8 { return uint8(s & StatusSCT >> 8) }

// CRD is the index, 1 to 3, of the command retry delay time in Identify Controller; 0 for none.
func (s Status) CRD() uint8 { return uint8(s & StatusCRD >> 11) }

// More says that the Error Information log page tells more about this error.
func (s Status) More() bool { return s&StatusMore != 0 }

// DNR says that the same command would fail again.
func (s Status) DNR() bool { return s&StatusDNR != 0 }

// WithDNR is the status with Do Not Retry set.
func (s Status) WithDNR() Status { return s | StatusDNR }

// OK says that the command was successful.
func (s Status) OK() bool { return s.Code() == StatusSuccess }

// Err is nil for a successful completion and the status itself for any other.
func (s Status) Err() error {
	if s.OK() {
		return nil
	}
	return s
}

// Is makes errors.Is compare the status code and its type, whatever CRD, More and DNR say.
func (s Status) Is(target error) bool {
	t, ok := target.(Status)
	return ok && s.Code() == t.Code()
}

// Error is String.
func (s Status) Error() string { return s.String() }

// String says the status in words, such as "LBA out of range (0x080), do not retry". Some codes mean one thing for an NVM command and another for a
// Fabrics command: both are named. FabricsString is exact for answers to Fabrics commands.
func (s Status) String() string {
	words, fabrics := s.text(), s.fabricsText()
	switch {
	case words == "":
		words = fabrics
	case fabrics != "":
		words += " or " + fabrics
	}
	return s.sentence(words)
}

// FabricsString says the status of a Fabrics command in words, such as "connect invalid host (0x184), do not retry".
func (s Status) FabricsString() string {
	words := s.fabricsText()
	if words == "" {
		words = s.text()
	}
	return s.sentence(words)
}

func (s Status) sentence(words string) string {
	if words == "" {
		words = s.typeText()
	}
	text := fmt.Sprintf("%s (0x%03x)", words, uint16(s.Code()))
	if s.DNR() {
		text += ", do not retry"
	}
	if s.More() {
		text += ", more in the error log"
	}
	return text
}

// typeText names a code that has no name of its own by its type.
func (s Status) typeText() string {
	switch s.SCT() {
	case SCTGeneric:
		return "unknown generic status"
	case SCTCommandSpecific:
		return "unknown command specific status"
	case SCTMedia:
		return "unknown media error"
	case SCTPath:
		return "unknown path error"
	case SCTVendor:
		return "vendor specific status"
	}
	return "unknown status type"
}
