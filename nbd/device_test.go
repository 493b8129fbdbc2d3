package nbd

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
)

// A device that breaks the rules is refused before a client sees it; sizes that
// no request can reach are not announced.
func TestNormalize(t *testing.T) {
	for _, tt := range []struct {
		name string
		in   DeviceInfo
		ok   bool
	}{
		{"defaults", DeviceInfo{MaxTransfer: 64 << 10}, true},
		{"largest block", DeviceInfo{MinBlock: 64 << 10, MaxTransfer: 64 << 10}, true},
		{"block no power of two", DeviceInfo{MinBlock: 1000, MaxTransfer: 1 << 20}, false},
		{"block too large", DeviceInfo{MinBlock: 128 << 10, MaxTransfer: 1 << 20}, false},
		{"preferred below minimum", DeviceInfo{MinBlock: 4096, PreferredBlock: 512, MaxTransfer: 1 << 20}, false},
		{"preferred no power of two", DeviceInfo{PreferredBlock: 5000, MaxTransfer: 1 << 20}, false},
		{"transfer too small", DeviceInfo{MaxTransfer: 32 << 10}, false},
		{"transfer no multiple", DeviceInfo{MinBlock: 512, MaxTransfer: 100000}, false},
		{"zero limit no multiple", DeviceInfo{MinBlock: 512, MaxTransfer: 1 << 20, MaxZero: 1000}, false},
		{"trim limit no multiple", DeviceInfo{MinBlock: 512, MaxTransfer: 1 << 20, MaxTrim: 1000}, false},
	} {
		if _, err := tt.in.normalize(); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	d, err := DeviceInfo{Size: 10000, MinBlock: 4096, MaxTransfer: 64 << 20}.normalize()
	if err != nil || d.Size != 8192 || d.PreferredBlock != 4096 || d.MaxTransfer != maxPayload || d.MaxZero == 0 || d.MaxTrim == 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

// Whatever a device reports, the client sees a value of the protocol.
func TestErrorOf(t *testing.T) {
	for err, want := range map[error]Error{
		ErrNoSpace:                                   ErrNoSpace,
		fmt.Errorf("write: %w", ErrPermission):       ErrPermission,
		fmt.Errorf("write: %w", syscall.EDQUOT):      ErrNoSpace,
		syscall.EROFS:                                ErrPermission,
		syscall.ENOMEM:                               ErrNoMemory,
		syscall.EINVAL:                               ErrInvalid,
		syscall.EOVERFLOW:                            ErrOverflow,
		syscall.EOPNOTSUPP:                           ErrNotSupported,
		syscall.ESHUTDOWN:                            ErrShutdown,
		syscall.ETIMEDOUT:                            ErrIO,
		fmt.Errorf("wait: %w", context.Canceled):     ErrShutdown,
		errors.New("controller is on fire"):          ErrIO,
		fmt.Errorf("no value of ours: %w", Error(0)): ErrIO,
	} {
		if got := errorOf(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
	for _, e := range []Error{ErrPermission, ErrIO, ErrNoMemory, ErrInvalid, ErrNoSpace, ErrOverflow, ErrNotSupported, ErrShutdown, 9} {
		if e.Error() == "" {
			t.Errorf("error %d has no text", uint32(e))
		}
	}
}

// Operations are told in words.
func TestOpString(t *testing.T) {
	if got := fmt.Sprint(OpRead, OpWriteZeroes, Op(77)); got != "read write zeroes Op(77)" {
		t.Error(got)
	}
}

// A device that completes a request twice would make the server answer another
// request with it: that must not pass in silence.
func TestSlotStates(t *testing.T) {
	s := &slot{}
	s.to(slotReading)
	s.to(slotSubmitted)
	s.to(slotSending)
	defer func() {
		if recover() == nil {
			t.Error("a second completion was accepted")
		}
	}()
	s.to(slotSending)
}
