package nbd

import "math"

// session is what the handshake agreed on.
type session struct {
	export   *Export
	info     DeviceInfo // normalized
	mode     replyMode
	metadata bool   // base:allocation is selected
	flags    uint16 // transmission flags
}

// transmissionFlags are the flags for a device in a session of this mode.
func transmissionFlags(d *DeviceInfo, mode replyMode, metadata bool) uint16 {
	f := uint16(flagHasFlags | flagSendCache)
	set := func(on bool, bit uint16) {
		if on {
			f |= bit
		}
	}
	set(d.Flush, flagSendFlush)
	set(d.Rotational, flagRotational)
	set(d.MultiConn, flagCanMultiConn)
	set(mode != modeSimple, flagSendDF)
	set(mode == modeExtended && metadata, flagBlockStatusPayload)
	if d.ReadOnly {
		return f | flagReadOnly
	}
	set(d.FUA, flagSendFUA)
	set(d.Trim, flagSendTrim)
	set(d.WriteZeroes, flagSendWriteZeroes)
	set(d.WriteZeroes && d.FastZero, flagSendFastZero)
	return f
}

// check decides about a request before anything is done: 0 when the device can
// be asked. Every length and offset is the client's, up to 2^64-1.
func (s *session) check(h *header) Error {
	if h.flags&^s.allowed(h.cmd) != 0 {
		return ErrInvalid
	}
	outside := ErrInvalid
	switch h.cmd {
	case cmdFlush:
		if s.flags&flagSendFlush == 0 || h.offset != 0 || h.length != 0 {
			return ErrInvalid
		}
		return 0
	case cmdRead, cmdCache:
	case cmdWrite, cmdWriteZeroes, cmdTrim:
		if s.flags&flagReadOnly != 0 {
			return ErrPermission
		}
		if h.cmd == cmdTrim && s.flags&flagSendTrim == 0 || h.cmd == cmdWriteZeroes && s.flags&flagSendWriteZeroes == 0 {
			return ErrInvalid
		}
		if h.cmd != cmdTrim {
			outside = ErrNoSpace
		}
		if h.cmd == cmdWrite && h.payload != h.length { // extended, without a payload
			return ErrInvalid
		}
	case cmdBlockStatus:
		if !s.metadata || h.payload != 0 || h.flags&cmdFlagPayloadLen != 0 && !h.contexts {
			return ErrInvalid
		}
	default:
		return ErrInvalid
	}
	size := s.info.Size
	switch {
	case h.offset > size || h.length > size-h.offset:
		return outside
	case h.length == 0 || (h.offset|h.length)&uint64(s.info.MinBlock-1) != 0:
		return ErrInvalid
	case h.cmd == cmdRead && h.length > maxPayload:
		return ErrOverflow
	case h.cmd == cmdWrite && h.length > maxPayload:
		return ErrInvalid
	}
	return 0
}

// allowed are the flags that a command may have. NBD_CMD_FLAG_FUA must be
// accepted on every command once it is announced.
func (s *session) allowed(cmd uint16) uint16 {
	var f uint16
	if s.flags&flagSendFUA != 0 {
		f = cmdFlagFUA
	}
	switch cmd {
	case cmdRead:
		if s.flags&flagSendDF != 0 {
			f |= cmdFlagDF
		}
	case cmdWrite:
		if s.mode == modeExtended {
			f |= cmdFlagPayloadLen
		}
	case cmdWriteZeroes:
		f |= cmdFlagNoHole
		if s.flags&flagSendFastZero != 0 {
			f |= cmdFlagFastZero
		}
	case cmdBlockStatus:
		f |= cmdFlagReqOne
		if s.flags&flagBlockStatusPayload != 0 {
			f |= cmdFlagPayloadLen
		}
	}
	return f
}

// drainLimit is the longest payload that is dropped rather than answered by
// closing. With extended headers that is the announced maximum (proto.md,
// "Request message" of the extension).
func (s *session) drainLimit() uint64 {
	if s.mode == modeExtended {
		return maxPayload
	}
	return maxDrain
}

// maxStatusLength is the longest extent that a 32-bit descriptor can tell, a
// multiple of every block size.
const maxStatusLength = math.MaxUint32 &^ (64<<10 - 1)
