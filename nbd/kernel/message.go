package kernel

import (
	"errors"
	"time"

	"github.com/mdlayher/netlink"
)

// The generic netlink family, as in linux/nbd-netlink.h.
const (
	familyName    = "nbd"
	familyVersion = 1

	cmdConnect     = 1
	cmdDisconnect  = 2
	cmdReconfigure = 3

	attrIndex             = 1
	attrSizeBytes         = 2
	attrBlockSizeBytes    = 3
	attrTimeout           = 4
	attrServerFlags       = 5
	attrClientFlags       = 6
	attrSockets           = 7
	attrDeadConnTimeout   = 8
	attrBackendIdentifier = 10

	sockItem = 1
	sockFD   = 1
)

// maxTimeout keeps a timeout in jiffies below 2^31 with a clock of 1000 Hz: the
// kernel counts them in 32 bits.
const maxTimeout = 24 * 24 * time.Hour

// config is what CONNECT and RECONFIGURE tell the kernel.
type config struct {
	index      int // -1: the kernel chooses
	size       uint64
	blockSize  uint32 // 0 leaves it as it is
	flags      uint16 // NBD transmission flags; CONNECT only
	timeout    time.Duration
	deadConn   time.Duration
	identifier string
	sockets    []int
}

// encode makes the attributes. Zero fields are left out, but for the timeouts of
// a CONNECT.
func (c *config) encode(connect bool) ([]byte, error) {
	ae := netlink.NewAttributeEncoder()
	if c.index >= 0 {
		ae.Uint32(attrIndex, uint32(c.index))
	}
	if c.size > 0 {
		ae.Uint64(attrSizeBytes, c.size)
	}
	if c.blockSize > 0 {
		ae.Uint64(attrBlockSizeBytes, uint64(c.blockSize))
	}
	if connect || c.timeout > 0 {
		ae.Uint64(attrTimeout, seconds(c.timeout))
	}
	if connect || c.deadConn > 0 {
		ae.Uint64(attrDeadConnTimeout, seconds(c.deadConn))
	}
	if connect {
		ae.Uint64(attrServerFlags, uint64(c.flags))
		ae.Uint64(attrClientFlags, 0)
	}
	if len(c.sockets) > 0 {
		ae.Nested(attrSockets, func(list *netlink.AttributeEncoder) error {
			for _, fd := range c.sockets {
				list.Nested(sockItem, func(item *netlink.AttributeEncoder) error {
					item.Uint32(sockFD, uint32(fd))
					return nil
				})
			}
			return nil
		})
	}
	if c.identifier != "" {
		ae.String(attrBackendIdentifier, c.identifier)
	}
	return ae.Encode()
}

// seconds rounds up: a timeout that is set must not become none.
func seconds(d time.Duration) uint64 {
	return uint64((min(d, maxTimeout) + time.Second - 1) / time.Second)
}

func encodeIndex(index int) ([]byte, error) {
	ae := netlink.NewAttributeEncoder()
	if index >= 0 {
		ae.Uint32(attrIndex, uint32(index))
	}
	return ae.Encode()
}

// decodeIndex reads the reply to CONNECT.
func decodeIndex(b []byte) (int, error) {
	ad, err := netlink.NewAttributeDecoder(b)
	if err != nil {
		return 0, err
	}
	for ad.Next() {
		if ad.Type() == attrIndex {
			return int(ad.Uint32()), ad.Err()
		}
	}
	return 0, errors.Join(ad.Err(), errors.New("reply without a device index"))
}
