// Package build tests that the programs can be built on every kind of machine, and
// what each build can do: with cgo and without, with the headers of rdma-core and
// without.
package build
