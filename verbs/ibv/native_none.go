//go:build !cgo || !linux || nordma

package ibv

import "errors"

// errBuiltWithout: the program has no way to call rdma-core.
var errBuiltWithout = errors.New("this program was built without cgo (CGO_ENABLED=0 or -tags nordma) and can't use RDMA devices; " +
	"use one that was built with cgo, or iwarp://, which needs no device")

// loadLibrary says why there is no rdma-core in this program.
var loadLibrary = func() (library, error) { return nil, errBuiltWithout }
