package perf

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// The messages travel as private data of a connection. All numbers are
// big-endian. Each begins with the same eight bytes: seven of name and one of
// version.
//
//	Request, 40 bytes                    Reply, 24 bytes      Reject, 12 bytes
//	 0  magic                             0  magic             0  magic
//	 8  op        9  flags    10  0 (2)   8  rkey              8  reason
//	12  size                             12  size
//	16  seconds                          16  addr
//	20  rkey     24  addr     32  0 (8)
const (
	magic      = "rbdperf\x01"
	requestLen = 40
	replyLen   = 24
	rejectLen  = 12
)

// flagPoll asks the server to poll its completion queue.
const flagPoll = 1 << 0

// errMalformed: the peer's private data is no message of this protocol.
var errMalformed = errors.New("private data is not that of a measuring peer of this version")

// Request is what a client asks for.
type Request struct {
	Op   Op
	Poll bool
	// Size is the length of a message, 1..MaxSize bytes.
	Size uint32
	// Seconds is when the server may take the client for lost; at most MaxDuration.
	Seconds uint32
	// RKey and Addr are Size bytes of the client's memory, for WriteLat.
	RKey uint32
	Addr uint64
}

// Append appends the message to b.
func (r *Request) Append(b []byte) []byte {
	b = append(b, magic...)
	var flags byte
	if r.Poll {
		flags |= flagPoll
	}
	b = append(b, byte(r.Op), flags, 0, 0)
	b = binary.BigEndian.AppendUint32(b, r.Size)
	b = binary.BigEndian.AppendUint32(b, r.Seconds)
	b = binary.BigEndian.AppendUint32(b, r.RKey)
	b = binary.BigEndian.AppendUint64(b, r.Addr)
	return append(b, 0, 0, 0, 0, 0, 0, 0, 0)
}

// Parse reads the message. What follows it is ignored: some transports pad
// private data. The error is always the same, for what is no request at all;
// [Request.Check] judges the values.
func (r *Request) Parse(b []byte) error {
	b, ok := body(b, requestLen)
	if !ok {
		return errMalformed
	}
	*r = Request{
		Op: Op(b[0]), Poll: b[1]&flagPoll != 0,
		Size: binary.BigEndian.Uint32(b[4:]), Seconds: binary.BigEndian.Uint32(b[8:]),
		RKey: binary.BigEndian.Uint32(b[12:]), Addr: binary.BigEndian.Uint64(b[16:]),
	}
	if b[1]&^flagPoll != 0 {
		return errMalformed
	}
	return nil
}

// Check returns why a server refuses the request, or 0.
func (r *Request) Check() Reason {
	switch {
	case !r.Op.valid():
		return ReasonOp
	case r.Size < 1 || r.Size > MaxSize:
		return ReasonSize
	case r.Seconds < 1 || r.Seconds > uint32(MaxDuration.Seconds()):
		return ReasonTime
	case r.Op == WriteLat && r.Addr > 1<<64-1-uint64(r.Size):
		return ReasonAddr
	}
	return 0
}

// Reply is how a server agrees.
type Reply struct {
	// RKey and Addr are Size bytes of the server's memory, for all but SendLat.
	RKey uint32
	Size uint32
	Addr uint64
}

// Append appends the message to b.
func (r *Reply) Append(b []byte) []byte {
	b = append(b, magic...)
	b = binary.BigEndian.AppendUint32(b, r.RKey)
	b = binary.BigEndian.AppendUint32(b, r.Size)
	return binary.BigEndian.AppendUint64(b, r.Addr)
}

// Parse reads the message, as [Request.Parse] does.
func (r *Reply) Parse(b []byte) error {
	b, ok := body(b, replyLen)
	if !ok {
		return errMalformed
	}
	*r = Reply{RKey: binary.BigEndian.Uint32(b), Size: binary.BigEndian.Uint32(b[4:]), Addr: binary.BigEndian.Uint64(b[8:])}
	return nil
}

// Reason is why a server refuses a test.
type Reason uint32

// Reasons of a refusal. The values are those of the wire.
const (
	// ReasonMalformed: the request is not one of this version of the protocol.
	ReasonMalformed Reason = 1 + iota
	// ReasonOp: the server does not know the test.
	ReasonOp
	// ReasonSize: the message is empty or larger than the server allows.
	ReasonSize
	// ReasonTime: the test would take longer than the server allows.
	ReasonTime
	// ReasonAddr: the client's memory goes beyond the end of the address space.
	ReasonAddr
	// ReasonBusy: the server has as many tests as it takes.
	ReasonBusy
	// ReasonResources: the server could not get memory or a queue pair.
	ReasonResources
)

var reasonTexts = [...]string{
	ReasonMalformed: "it does not understand the request: is it of another version?",
	ReasonOp:        "it does not know this test",
	ReasonSize:      "it does not take messages of this size",
	ReasonTime:      "the test would take too long",
	ReasonAddr:      "the client's address makes no sense",
	ReasonBusy:      "it is busy with other tests; try again",
	ReasonResources: "it has no memory or queue left, see its log",
}

func (r Reason) Error() string {
	if r == 0 || int64(r) >= int64(len(reasonTexts)) {
		return fmt.Sprintf("the server refused the test: reason %d", uint32(r))
	}
	return "the server refused the test: " + reasonTexts[r]
}

// Reject is how a server refuses.
type Reject struct{ Reason Reason }

// Append appends the message to b.
func (r *Reject) Append(b []byte) []byte {
	return binary.BigEndian.AppendUint32(append(b, magic...), uint32(r.Reason))
}

// Parse reads the message, as [Request.Parse] does.
func (r *Reject) Parse(b []byte) error {
	b, ok := body(b, rejectLen)
	if !ok {
		return errMalformed
	}
	r.Reason = Reason(binary.BigEndian.Uint32(b))
	return nil
}

// body is what follows the magic in a message of n bytes.
func body(b []byte, n int) ([]byte, bool) {
	if len(b) < n || string(b[:len(magic)]) != magic {
		return nil, false
	}
	return b[len(magic):n], true
}
