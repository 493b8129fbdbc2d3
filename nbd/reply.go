package nbd

import "encoding/binary"

// maxExtents is the most extents in one reply to BLOCK_STATUS.
const maxExtents = 32

// maxReplyHeader is the most bytes that one reply takes besides the data of a
// READ: a status reply with extended headers.
const maxReplyHeader = extendedReplySize + 8 + 16*maxExtents

// putSimpleReply encodes a simple reply into b and says how long it is.
func putSimpleReply(b []byte, cookie uint64, e Error) int {
	binary.BigEndian.PutUint32(b, simpleReplyMagic)
	binary.BigEndian.PutUint32(b[4:], uint32(e))
	binary.BigEndian.PutUint64(b[8:], cookie)
	return simpleReplySize
}

// putChunk encodes the header of a structured or extended chunk with a payload
// of n bytes. The offset is the one of the request.
func putChunk(b []byte, mode replyMode, flags, kind uint16, cookie, offset, n uint64) int {
	be := binary.BigEndian
	be.PutUint16(b[4:], flags)
	be.PutUint16(b[6:], kind)
	be.PutUint64(b[8:], cookie)
	if mode == modeExtended {
		be.PutUint32(b, extendedReplyMagic)
		be.PutUint64(b[16:], offset)
		be.PutUint64(b[24:], n)
		return extendedReplySize
	}
	be.PutUint32(b, structuredReplyMagic)
	be.PutUint32(b[16:], uint32(n))
	return structuredReplySize
}

// putRead encodes what precedes n bytes of data from offset at.
func putRead(b []byte, mode replyMode, s *slot, at, n uint64, done bool) int {
	if mode == modeSimple {
		return putSimpleReply(b, s.cookie, 0)
	}
	var flags uint16
	if done {
		flags = replyFlagDone
	}
	k := putChunk(b, mode, flags, replyTypeOffsetData, s.cookie, s.offset, 8+n)
	binary.BigEndian.PutUint64(b[k:], at)
	return k + 8
}

// putStatus encodes the end of a command without data: success, or its error.
// A structured session has the shorter simple reply for success, save for READ.
func putStatus(b []byte, mode replyMode, s *slot) int {
	if mode == modeSimple || mode == modeStructured && s.errno == 0 && s.cmd != cmdRead {
		return putSimpleReply(b, s.cookie, s.errno)
	}
	if s.errno == 0 {
		return putChunk(b, mode, replyFlagDone, replyTypeNone, s.cookie, s.offset, 0)
	}
	k := putChunk(b, mode, replyFlagDone, replyTypeError, s.cookie, s.offset, 6)
	binary.BigEndian.PutUint32(b[k:], uint32(s.errno))
	binary.BigEndian.PutUint16(b[k+4:], 0) // no message
	return k + 6
}

// putExtents encodes the reply to BLOCK_STATUS.
func putExtents(b []byte, mode replyMode, s *slot, extents []Extent) int {
	be := binary.BigEndian
	n := uint64(len(extents))
	if mode == modeExtended {
		k := putChunk(b, mode, replyFlagDone, replyTypeBlockStatusExt, s.cookie, s.offset, 8+16*n)
		be.PutUint32(b[k:], contextAllocationID)
		be.PutUint32(b[k+4:], uint32(n))
		k += 8
		for _, e := range extents {
			be.PutUint64(b[k:], e.Length)
			be.PutUint64(b[k+8:], uint64(e.flags()))
			k += 16
		}
		return k
	}
	k := putChunk(b, mode, replyFlagDone, replyTypeBlockStatus, s.cookie, s.offset, 4+8*n)
	be.PutUint32(b[k:], contextAllocationID)
	k += 4
	for _, e := range extents {
		be.PutUint32(b[k:], uint32(e.Length))
		be.PutUint32(b[k+4:], e.flags())
		k += 8
	}
	return k
}

// flags are the NBD_STATE_HOLE and NBD_STATE_ZERO bits.
func (e Extent) flags() uint32 {
	var f uint32
	if e.Hole {
		f |= 1 << 0
	}
	if e.Zero {
		f |= 1 << 1
	}
	return f
}

// clipExtents cuts what a device reported to the range of the request, to one
// extent if asked, and to what a 32-bit descriptor can tell. It answers none
// when the device reported nothing of use.
func clipExtents(extents []Extent, length uint64, one, short bool) []Extent {
	for i := range extents {
		e := &extents[i]
		whole := min(e.Length, length)
		if e.Length = whole; short {
			e.Length = min(whole, maxStatusLength)
		}
		if e.Length == 0 {
			return extents[:i]
		}
		length -= e.Length
		if one || length == 0 || e.Length != whole {
			return extents[:i+1]
		}
	}
	return extents
}
