package perf

import (
	"fmt"

	"rbd/verbs"
)

// Op is what is measured. The names are those of perftest's programs.
type Op uint8

// The tests. The values are those of the wire.
const (
	// WriteBW is the bandwidth of RDMA WRITE (ib_write_bw).
	WriteBW Op = 1 + iota
	// ReadBW is the bandwidth of RDMA READ (ib_read_bw).
	ReadBW
	// SendLat is the latency of SEND (ib_send_lat).
	SendLat
	// WriteLat is the latency of RDMA WRITE (ib_write_lat).
	WriteLat
)

var opNames = [...]string{WriteBW: "write_bw", ReadBW: "read_bw", SendLat: "send_lat", WriteLat: "write_lat"}

func (o Op) String() string {
	if !o.valid() {
		return fmt.Sprintf("Op(%d)", uint8(o))
	}
	return opNames[o]
}

// ParseOp reads the name of a test.
func ParseOp(s string) (Op, error) {
	for o := WriteBW; o.valid(); o++ {
		if s == opNames[o] {
			return o, nil
		}
	}
	return 0, fmt.Errorf("%q is not write_bw, read_bw, send_lat or write_lat", s)
}

func (o Op) valid() bool { return o >= WriteBW && int(o) < len(opNames) }

// Latency says whether the test measures latency; the others measure bandwidth.
func (o Op) Latency() bool { return o == SendLat || o == WriteLat }

// DefaultSize is the size of a message, in bytes, that perftest takes.
func (o Op) DefaultSize() int {
	if o.Latency() {
		return 2
	}
	return 65536
}

// DefaultIterations is the number of messages that perftest sends.
func (o Op) DefaultIterations() int {
	if o == WriteBW {
		return 5000
	}
	return 1000
}

// polls says whether polling the completion queue makes sense: the figures of
// WriteLat come from memory, and another busy goroutine would be in its way.
func (o Op) polls() bool { return o != WriteLat }

// access are the rights of the server's memory, and of the client's.
func (o Op) access() (server, client verbs.Access) {
	switch o {
	case WriteBW:
		return verbs.AccessLocalWrite | verbs.AccessRemoteWrite, 0
	case ReadBW:
		return verbs.AccessRemoteRead, verbs.AccessLocalWrite
	case SendLat:
		return verbs.AccessLocalWrite, verbs.AccessLocalWrite
	}
	both := verbs.AccessLocalWrite | verbs.AccessRemoteWrite
	return both, both
}
