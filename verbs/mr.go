package verbs

import "strings"

// PD is a protection domain (ibv_pd): QPs and MRs of different domains never
// meet; a key used on a QP of another domain is an access error.
type PD interface {
	Device() Device
	// RegMR registers mem, which must come from AllocMemory. The region covers
	// exactly len(mem) bytes. Keys are random if DeviceAttr.RandomKeys says so.
	RegMR(mem []byte, access Access) (MR, error)
	// Dealloc frees the domain; ErrBusy while MRs or QPs are in it.
	Dealloc() error
}

// MR is a memory region (ibv_mr).
type MR interface {
	// Addr and Len are the region's virtual address and size in bytes.
	Addr() uint64
	Len() int
	// LKey names the region in SGEs of local work requests.
	LKey() uint32
	// RKey names it for a peer, within the rights given at registration.
	RKey() uint32
	// Dereg ends the region. It waits, briefly, for an access in progress; when it
	// has returned, neither key works and the provider touches the memory no more.
	Dereg() error
}

// Access are the rights of a memory region (ibv_access_flags). Local read is
// always given.
type Access uint32

// The values are those of libibverbs.
const (
	// AccessLocalWrite lets receives and RDMA READ results be placed here.
	AccessLocalWrite Access = 1 << 0
	// AccessRemoteWrite lets the peer RDMA WRITE here; it needs AccessLocalWrite.
	AccessRemoteWrite Access = 1 << 1
	// AccessRemoteRead lets the peer RDMA READ from here.
	AccessRemoteRead Access = 1 << 2
)

// Valid says whether the combination may be registered: no unknown bits, and
// remote write only with local write (ibv_reg_mr).
func (a Access) Valid() bool {
	const all = AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead
	return a&^all == 0 && (a&AccessRemoteWrite == 0 || a&AccessLocalWrite != 0)
}

func (a Access) String() string {
	var names []string
	for _, f := range []struct {
		bit  Access
		name string
	}{{AccessLocalWrite, "LOCAL_WRITE"}, {AccessRemoteWrite, "REMOTE_WRITE"}, {AccessRemoteRead, "REMOTE_READ"}} {
		if a&f.bit != 0 {
			names = append(names, f.name)
		}
	}
	return strings.Join(names, "|")
}
