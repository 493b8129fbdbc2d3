// Package conformance runs the suite that every provider must pass (verbs/verbstest)
// on real RDMA devices, through verbs/ibv. It is no test of that package's own,
// because it needs a device: the scenarios tests/vm/scenarios/ibv-conformance-*.sh
// run it in a virtual machine on Soft-RoCE and Soft-iWARP.
//
// On a machine with an adapter, whose address is 192.0.2.1:
//
//	RBD_IBV_LISTEN=rdma://192.0.2.1 go test ./tests/conformance
package conformance
