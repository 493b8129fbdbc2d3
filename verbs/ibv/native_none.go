//go:build !cgo || !linux || nordma

package ibv

// loadLibrary says why there is no rdma-core in this program.
var loadLibrary = func() (library, error) { return nil, errBuiltWithout }
