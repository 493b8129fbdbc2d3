package nbd

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// errBadMagic ends the connection: where the next request begins is unknown.
var errBadMagic = errors.New("request has a wrong magic number")

// header is a request as sent by the client, without the payload of a WRITE.
type header struct {
	flags  uint16
	cmd    uint16
	cookie uint64
	offset uint64
	length uint64

	// payload is how many bytes follow in the stream.
	payload uint64
	// contexts tells that the payload of a BLOCK_STATUS was well formed and
	// named the one context there is; it is taken in with the header.
	contexts bool
}

// statusPayloadSize is the one size of a useful payload of BLOCK_STATUS: the
// effect length and one metadata context ID.
const statusPayloadSize = 8 + 4

// parseRequest takes one request from the front of b, and says how many bytes
// that were; 0 when b does not yet hold all of it. The payload of a WRITE is
// not part of it.
func parseRequest(b []byte, extended bool) (h header, n int, err error) {
	size, magic := requestSize, uint32(requestMagic)
	if extended {
		size, magic = extendedRequestSize, extendedRequestMagic
	}
	if len(b) >= 4 {
		if got := binary.BigEndian.Uint32(b); got != magic {
			return h, 0, fmt.Errorf("%w: %#x", errBadMagic, got)
		}
	}
	if len(b) < size {
		return h, 0, nil
	}
	h.flags = binary.BigEndian.Uint16(b[4:])
	h.cmd = binary.BigEndian.Uint16(b[6:])
	h.cookie = binary.BigEndian.Uint64(b[8:])
	h.offset = binary.BigEndian.Uint64(b[16:])
	if !extended {
		h.length = uint64(binary.BigEndian.Uint32(b[24:]))
		if h.cmd == cmdWrite {
			h.payload = h.length
		}
		return h, size, nil
	}
	h.length = binary.BigEndian.Uint64(b[24:])
	if h.flags&cmdFlagPayloadLen == 0 {
		return h, size, nil
	}
	h.payload = h.length
	if h.cmd == cmdBlockStatus && h.payload == statusPayloadSize {
		if len(b) < size+statusPayloadSize {
			return h, 0, nil
		}
		h.payload = 0
		h.length = binary.BigEndian.Uint64(b[size:])
		h.contexts = binary.BigEndian.Uint32(b[size+8:]) == contextAllocationID
		return h, size + statusPayloadSize, nil
	}
	return h, size, nil
}
