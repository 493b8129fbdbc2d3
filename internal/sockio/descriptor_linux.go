package sockio

import (
	"fmt"
	"net"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// descriptor counts the users of a file descriptor, so that its number is not
// given away while a system call may still use it.
type descriptor struct {
	fd   int
	refs atomic.Int64 // users, plus closedBit once nobody new may come
}

const closedBit = 1 << 62

// acquire begins a use; false when the descriptor is closed.
func (d *descriptor) acquire() bool {
	for {
		n := d.refs.Load()
		if n&closedBit != 0 {
			return false
		}
		if d.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (d *descriptor) release() {
	if d.refs.Add(-1) == closedBit {
		d.free()
	}
}

func (d *descriptor) closing() bool { return d.refs.Load()&closedBit != 0 }

// close lets nobody new in, calls wake so that those within come out, and frees
// the descriptor when the last one has.
func (d *descriptor) close(wake func()) error {
	if !d.acquire() {
		return net.ErrClosed
	}
	for {
		n := d.refs.Load()
		if n&closedBit != 0 { // another Close was faster
			d.release()
			return net.ErrClosed
		}
		if d.refs.CompareAndSwap(n, n|closedBit) {
			break
		}
	}
	wake()
	d.release()
	return nil
}

func (d *descriptor) free() {
	if err := unix.Close(d.fd); err != nil {
		panic(fmt.Sprintf("sockio: close descriptor %d: %v", d.fd, err))
	}
}
