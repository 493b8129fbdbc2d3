package nbd

import (
	"math"
	"testing"
)

// Each refusal has the error value that the protocol names, and nothing that is
// out of range or not agreed on gets to the device.
func TestCheck(t *testing.T) {
	const size = 1 << 30
	all := func(*DeviceInfo) {}
	bare := func(d *DeviceInfo) { *d = DeviceInfo{Size: size, MaxTransfer: 1 << 20} }
	readOnly := func(d *DeviceInfo) { d.ReadOnly = true }
	blocks := func(d *DeviceInfo) { d.MinBlock = 4096 }
	write := func(h header) header { h.cmd, h.payload = cmdWrite, h.length; return h }
	for _, tt := range []struct {
		name   string
		mode   replyMode
		device func(*DeviceInfo)
		h      header
		want   Error
	}{
		{"read", modeSimple, all, header{cmd: cmdRead, length: 1}, 0},
		{"last byte", modeSimple, all, header{cmd: cmdRead, offset: size - 1, length: 1}, 0},
		{"longest read", modeSimple, all, header{cmd: cmdRead, length: maxPayload}, 0},
		{"too long a read", modeSimple, all, header{cmd: cmdRead, length: maxPayload + 1}, ErrOverflow},
		{"nothing", modeSimple, all, header{cmd: cmdRead}, ErrInvalid},
		{"read beyond the end", modeSimple, all, header{cmd: cmdRead, offset: size - 1, length: 2}, ErrInvalid},
		{"read at the end", modeSimple, all, header{cmd: cmdRead, offset: size, length: 1}, ErrInvalid},
		{"read that wraps", modeExtended, all, header{cmd: cmdRead, offset: 512, length: math.MaxUint64}, ErrInvalid},
		{"read at the last offset", modeSimple, all, header{cmd: cmdRead, offset: math.MaxUint64, length: 1}, ErrInvalid},
		{"read all there is", modeExtended, all, header{cmd: cmdRead, length: size}, ErrOverflow},
		{"DF", modeStructured, all, header{cmd: cmdRead, flags: cmdFlagDF, length: 1}, 0},
		{"DF without chunks", modeSimple, all, header{cmd: cmdRead, flags: cmdFlagDF, length: 1}, ErrInvalid},
		{"FUA on a read", modeSimple, all, header{cmd: cmdRead, flags: cmdFlagFUA, length: 1}, 0},
		{"FUA not offered", modeSimple, bare, write(header{flags: cmdFlagFUA, length: 1}), ErrInvalid},
		{"unknown flag", modeSimple, all, header{cmd: cmdRead, flags: 1 << 15, length: 1}, ErrInvalid},
		{"payload of a read", modeExtended, all, header{cmd: cmdRead, flags: cmdFlagPayloadLen, length: 1, payload: 1}, ErrInvalid},
		{"unaligned offset", modeSimple, blocks, header{cmd: cmdRead, offset: 512, length: 4096}, ErrInvalid},
		{"unaligned length", modeSimple, blocks, header{cmd: cmdRead, offset: 4096, length: 512}, ErrInvalid},
		{"unaligned write", modeSimple, blocks, write(header{offset: 4096, length: 512}), ErrInvalid},
		{"aligned", modeSimple, blocks, write(header{offset: 4096, length: 8192}), 0},

		{"write", modeSimple, all, write(header{flags: cmdFlagFUA, length: maxPayload}), 0},
		{"too long a write", modeSimple, all, write(header{length: maxPayload + 1}), ErrInvalid},
		{"write beyond the end", modeSimple, all, write(header{offset: size, length: 1}), ErrNoSpace},
		{"write to a read-only export", modeSimple, readOnly, write(header{length: 1}), ErrPermission},
		{"extended write", modeExtended, all, write(header{flags: cmdFlagPayloadLen, length: 1}), 0},
		{"extended write without payload", modeExtended, all, header{cmd: cmdWrite, length: 1}, ErrInvalid},

		{"trim", modeExtended, all, header{cmd: cmdTrim, flags: cmdFlagFUA, length: size}, 0},
		{"trim beyond the end", modeSimple, all, header{cmd: cmdTrim, offset: 1, length: size}, ErrInvalid},
		{"trim not offered", modeSimple, bare, header{cmd: cmdTrim, length: 1}, ErrInvalid},
		{"trim of a read-only export", modeSimple, readOnly, header{cmd: cmdTrim, length: 1}, ErrPermission},
		{"zeroes", modeExtended, all, header{cmd: cmdWriteZeroes, flags: cmdFlagNoHole | cmdFlagFastZero | cmdFlagFUA, length: size}, 0},
		{"zeroes beyond the end", modeSimple, all, header{cmd: cmdWriteZeroes, offset: size, length: 1}, ErrNoSpace},
		{"zeroes not offered", modeSimple, bare, header{cmd: cmdWriteZeroes, length: 1}, ErrInvalid},
		{"fast zeroes not offered", modeSimple, func(d *DeviceInfo) { d.FastZero = false },
			header{cmd: cmdWriteZeroes, flags: cmdFlagFastZero, length: 1}, ErrInvalid},
		{"zeroes of a read-only export", modeSimple, readOnly, header{cmd: cmdWriteZeroes, length: 1}, ErrPermission},

		{"flush", modeSimple, all, header{cmd: cmdFlush}, 0},
		{"flush of a read-only export", modeSimple, readOnly, header{cmd: cmdFlush}, 0},
		{"flush of a range", modeSimple, all, header{cmd: cmdFlush, length: 1}, ErrInvalid},
		{"flush not offered", modeSimple, bare, header{cmd: cmdFlush}, ErrInvalid},
		{"cache", modeSimple, bare, header{cmd: cmdCache, length: size}, 0},
		{"cache with a flag", modeSimple, all, header{cmd: cmdCache, flags: cmdFlagReqOne, length: 1}, ErrInvalid},
		{"cache beyond the end", modeSimple, all, header{cmd: cmdCache, offset: size, length: 1}, ErrInvalid},

		{"status", modeStructured, all, header{cmd: cmdBlockStatus, flags: cmdFlagReqOne, length: size}, 0},
		{"status without a context", modeSimple, all, header{cmd: cmdBlockStatus, length: 1}, ErrInvalid},
		{"status beyond the end", modeStructured, all, header{cmd: cmdBlockStatus, offset: 1, length: size}, ErrInvalid},
		{"status with contexts", modeExtended, all, header{cmd: cmdBlockStatus, flags: cmdFlagPayloadLen, length: size, contexts: true}, 0},
		{"status with a wrong context", modeExtended, all, header{cmd: cmdBlockStatus, flags: cmdFlagPayloadLen, length: size}, ErrInvalid},
		{"status with a long payload", modeExtended, all, header{cmd: cmdBlockStatus, flags: cmdFlagPayloadLen, length: 16, payload: 16}, ErrInvalid},

		{"resize", modeSimple, all, header{cmd: 8, length: 1}, ErrInvalid},
		{"unknown", modeSimple, all, header{cmd: 0xffff, length: 1}, ErrInvalid},
	} {
		if got := testSession(tt.mode, tt.device).check(&tt.h); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}

// Only what can be kept is announced.
func TestTransmissionFlags(t *testing.T) {
	for _, tt := range []struct {
		name string
		d    DeviceInfo
		mode replyMode
		meta bool
		want uint16
	}{
		{"nothing", DeviceInfo{}, modeSimple, false, 0x401},
		{"everything", DeviceInfo{Flush: true, FUA: true, Trim: true, WriteZeroes: true, FastZero: true, Rotational: true, MultiConn: true}, modeExtended, true, 0x1dfd},
		{"read-only", DeviceInfo{ReadOnly: true, Flush: true, FUA: true, Trim: true, WriteZeroes: true, FastZero: true, MultiConn: true}, modeSimple, false, 0x507},
		{"fast zero without zeroes", DeviceInfo{FastZero: true}, modeSimple, false, 0x401},
		{"chunks", DeviceInfo{}, modeStructured, true, 0x481},
	} {
		if got := transmissionFlags(&tt.d, tt.mode, tt.meta); got != tt.want {
			t.Errorf("%s: %#x, want %#x", tt.name, got, tt.want)
		}
	}
}
