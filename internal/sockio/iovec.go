package sockio

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Iovec is the iovec of b; of no bytes when b is empty.
func Iovec(b []byte) unix.Iovec {
	v := unix.Iovec{Base: unsafe.SliceData(b)}
	v.SetLen(len(b))
	return v
}

// Advance drops the first n bytes from the iovecs, in place, and returns what is
// left: after a short write, the same call continues with it.
func Advance(iov []unix.Iovec, n int) []unix.Iovec {
	for len(iov) > 0 && n >= int(iov[0].Len) {
		n -= int(iov[0].Len)
		iov = iov[1:]
	}
	if n > 0 && len(iov) > 0 {
		iov[0].Base = (*byte)(unsafe.Add(unsafe.Pointer(iov[0].Base), n))
		iov[0].SetLen(int(iov[0].Len) - n)
	}
	return iov
}
