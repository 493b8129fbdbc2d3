package iwarp

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"rbd/internal/sockio"
	"rbd/verbs"
	"rbd/verbs/iwarp/internal/frame"
)

const (
	rxStageSize = 64 << 10
	// rxStageSizeCRC holds several FPDUs: with CRC on they are placed only when
	// they are there as a whole and verified.
	rxStageSizeCRC = 256 << 10
	maxDirect      = 2 * maxSGE
	// After an FPDU of largeFPDU bytes another may come, whose payload would be
	// copied needlessly: then only afterLarge bytes go to the stage.
	largeFPDU  = 16 << 10
	afterLarge = 8 << 10
)

// receiver is the receive half of the protocol: it takes the bytes of the stream
// and makes placements and completions of them. iovecs says where the next bytes
// go, received handles them. It belongs to the receiver goroutine.
//
// Bytes go into the stage, where headers are parsed and whence small payload is
// copied to its place. With CRC off, the payload of an FPDU that goes on beyond
// the stage is read straight into its place.
type receiver struct {
	q   *qp
	crc bool

	stage []byte
	r, w  int // stage[r:w] is not handled yet
	iov   []unix.Iovec
	pins  []*mr // the regions of the iovecs before the stage's

	// The FPDU in progress, once its header was handled.
	open    bool
	header  [frame.ReadRequestSize]byte
	size    int  // of the header
	payload int  // of the whole FPDU
	left    int  // of the payload, not placed yet
	trailer int  // size of padding and CRC
	bulk    bool // more FPDUs of the message follow
	finish  func() *fault
	dst     *sgeCursor
	right   verbs.Access // that dst needs

	taggedState
	untaggedState
}

func (x *receiver) init(q *qp, l link) {
	*x = receiver{q: q, crc: l.crc}
	size := rxStageSize
	if x.crc {
		size = rxStageSizeCRC
	}
	x.stage = make([]byte, size)
	x.iov = make([]unix.Iovec, 0, maxDirect+1)
	x.pins = make([]*mr, 0, maxDirect)
	x.taggedState.init(x)
	x.untaggedState.init(x)
}

// step reads once and handles what came; if nothing has come it waits, or does
// nothing. It does not pin memory while it waits.
func (x *receiver) step(s stream, wait bool) *fault {
	for {
		iov, f := x.iovecs()
		if f != nil {
			return f
		}
		var n int
		var err error
		if wait && len(x.pins) == 0 {
			n, err = s.Readv(iov)
		} else {
			n, err = s.TryReadv(iov)
		}
		if err == nil {
			return x.received(n)
		}
		x.unpin()
		if errors.Is(err, sockio.ErrWouldBlock) {
			if !wait {
				return nil
			}
			if err = s.WaitReadable(); err == nil {
				continue
			}
		}
		switch {
		case !errors.Is(err, io.EOF):
			return lost(fmt.Errorf("connection lost: %w", err))
		case x.between():
			return lost(verbs.ErrDisconnected)
		}
		return lost(errTruncated)
	}
}

// between says whether the stream is between two messages.
func (x *receiver) between() bool {
	return !x.open && x.r == x.w && !x.taggedOpen && !x.sendOpen
}

// discard reads and forgets what is there, or a part of it.
func (x *receiver) discard(s stream) {
	x.iov = append(x.iov[:0], sockio.Iovec(x.stage))
	for range maxTurns {
		if _, err := s.TryReadv(x.iov); err != nil {
			return
		}
	}
}

// iovecs says where the next bytes of the stream go: the rest of the payload to
// its place, what follows to the stage. Their regions are pinned until unpin or
// received.
func (x *receiver) iovecs() ([]unix.Iovec, *fault) {
	x.compact()
	x.iov = x.iov[:0]
	free := x.stage[x.w:]
	limit := len(free)
	if !x.crc && x.payload >= largeFPDU {
		limit = afterLarge
	}
	if x.left > 0 {
		if f := x.pinPayload(); f != nil {
			return nil, f
		}
		if x.bulk { // one like it follows: take its header only
			limit = x.trailer + x.size
		}
	}
	x.iov = append(x.iov, sockio.Iovec(free[:min(limit, len(free))]))
	return x.iov, nil
}

// compact makes room in the stage. What is left there is part of a header, or
// with CRC on part of an FPDU.
func (x *receiver) compact() {
	switch {
	case x.r == x.w:
		x.r, x.w = 0, 0
	case !x.crc || len(x.stage)-x.w < frame.MaxFPDU:
		x.r, x.w = 0, copy(x.stage, x.stage[x.r:x.w])
	}
}

// pinPayload adds the places of the payload that is left.
func (x *receiver) pinPayload() *fault {
	c, n := *x.dst, x.left
	for n > 0 {
		s := c.next(n)
		m, b, e := x.q.dev.keys.acquire(x.q.pd, s.LKey, s.Addr, uint64(s.Length), x.right)
		if e != accessOK {
			x.unpin()
			return x.refuse(e)
		}
		x.iov = append(x.iov, sockio.Iovec(b))
		x.pins = append(x.pins, m)
		n -= len(b)
	}
	return nil
}

func (x *receiver) unpin() {
	for _, m := range x.pins {
		m.release()
	}
	x.pins = x.pins[:0]
}

// received handles n bytes that were put where iovecs said.
func (x *receiver) received(n int) *fault {
	if len(x.pins) > 0 {
		x.unpin()
		direct := min(n, x.left)
		for k := direct; k > 0; {
			k -= int(x.dst.next(k).Length)
		}
		x.left -= direct
		n -= direct
	}
	x.w += n
	for {
		more, f := x.handle()
		if f != nil || !more {
			return f
		}
	}
}

// handle takes the next part of an FPDU from the stage; more is false when it is
// not all there.
func (x *receiver) handle() (more bool, f *fault) {
	b := x.stage[x.r:x.w]
	switch {
	case !x.open:
		return x.begin(b)
	case x.left > 0:
		b = b[:min(len(b), x.left)]
		x.r += len(b)
		x.left -= len(b)
		if f := x.place(b); f != nil {
			return false, f
		}
		return x.left == 0, nil
	case len(b) < x.trailer:
		return false, nil
	}
	x.r += x.trailer
	x.open = false
	if x.q.held {
		x.q.unhold()
	}
	return true, x.finish()
}

// begin handles the header of an FPDU.
func (x *receiver) begin(b []byte) (more bool, f *fault) {
	if len(b) < frame.PrefixSize {
		return false, nil
	}
	ulpdu, c := frame.Prefix(b)
	trailer := frame.TrailerSize(ulpdu)
	if x.crc {
		n := frame.LengthSize + ulpdu + trailer
		if len(b) < n {
			return false, nil
		}
		if !frame.CheckCRC(b[:n]) {
			return false, peerFault(frame.TermMPACRC, nil, "CRC of an FPDU")
		}
	}
	if code, ok := c.Check(); !ok {
		return false, peerFault(code, nil, "control word %#04x", uint16(c))
	}
	size := c.HeaderSize()
	if ulpdu < size-frame.LengthSize {
		return false, peerFault(frame.TermMPAFrame, nil, "%s of %d bytes", c.Opcode(), ulpdu)
	}
	if len(b) < size {
		return false, nil
	}
	if c.Opcode() == frame.OpTerminate {
		return x.terminated(b, ulpdu)
	}
	copy(x.header[:], b[:size])
	x.open, x.size, x.trailer, x.bulk = true, size, trailer, !c.Last()
	x.payload = ulpdu + frame.LengthSize - size
	x.left = x.payload
	x.r += size
	if c.Tagged() {
		return true, x.beginTagged(b)
	}
	return true, x.beginUntagged(b)
}

// place copies payload to its place.
func (x *receiver) place(b []byte) *fault {
	for len(b) > 0 {
		s := x.dst.next(len(b))
		m, to, e := x.q.dev.keys.acquire(x.q.pd, s.LKey, s.Addr, uint64(s.Length), x.right)
		if e != accessOK {
			return x.refuse(e)
		}
		b = b[copy(to, b):]
		m.release()
	}
	return nil
}

// refuse is the fault for payload that can't be placed.
func (x *receiver) refuse(e accessError) *fault {
	switch c := frame.Control(uint16(x.header[2])<<8 | uint16(x.header[3])); c.Opcode() {
	case frame.OpWrite:
		return x.fault(taggedCodes[e], "RDMA WRITE: %s", e)
	case frame.OpReadResponse:
		x.failRead(verbs.WCLocProtErr)
	default:
		x.failRecv(verbs.WCLocProtErr)
	}
	return localFault("place received data: local memory: %s", e)
}

// fault is an error of the peer in the FPDU in progress.
func (x *receiver) fault(code frame.TermCode, format string, args ...any) *fault {
	return peerFault(code, x.header[:x.size], format, args...)
}
