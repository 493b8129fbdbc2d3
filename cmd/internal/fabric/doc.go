// Package fabric chooses the RDMA provider of an address, and tells about the
// fabrics of this machine.
package fabric
