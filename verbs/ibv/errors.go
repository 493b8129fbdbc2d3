package ibv

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"rbd/verbs"
)

// errDeviceRemoved is why a connection ended whose device is gone.
var errDeviceRemoved = errors.New("the RDMA device was removed")

// errQPError is why a connection ended whose QP failed without telling more.
var errQPError = errors.New("the queue pair went to the error state")

// errOverrun is why a connection ended whose completions found no room.
var errOverrun = errors.New("a completion queue overran")

// missingLibraryError: rdma-core, or a function of it, is not installed.
type missingLibraryError struct {
	what string // library or function
	why  string // the loader's words
}

func (e *missingLibraryError) Error() string {
	if e.why == "" {
		return fmt.Sprintf("rdma-core is too old: it has no %s; install version 17 or later", e.what)
	}
	return fmt.Sprintf("rdma-core is not installed (%s); install it with: apt install libibverbs1 librdmacm1 ibverbs-providers", e.why)
}

// sentinel finds the error of package verbs that callers decide by; nil if there is
// none.
func sentinel(err error) error {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return nil
	}
	switch errno {
	case unix.EINVAL:
		return verbs.ErrInvalid
	case unix.ENOMEM, unix.EAGAIN, unix.ENOSPC:
		return verbs.ErrNoMemory
	case unix.EBUSY:
		return verbs.ErrBusy
	case unix.EOPNOTSUPP, unix.ENOSYS:
		return verbs.ErrNotSupported
	}
	return nil
}

// wrap says what failed, with the errno's own words, so that both can be found.
func wrap(what string, err error) error {
	if s := sentinel(err); s != nil {
		return fmt.Errorf("%s: %w (%w)", what, s, err)
	}
	return fmt.Errorf("%s: %w", what, err)
}
