package verbstest

import (
	"os"
	"slices"
	"testing"

	"rbd/verbs"
)

// Fabric is what the suite has to know of a provider.
type Fabric struct {
	Provider verbs.Provider
	// Listen is the address for listeners, with port 0. Peers in the same process
	// and on the same host must be able to connect to it.
	Listen verbs.Addr
	// ListenIPv6 is the same for IPv6; Host is empty where there is no IPv6.
	ListenIPv6 verbs.Addr
	// NotRDMA starts something that takes connections, sends greeting, and then
	// reads and says no more until the test ends. It returns its address. Nil
	// where the fabric has no such thing.
	NotRDMA func(t testing.TB, greeting []byte) verbs.Addr
	// SilentFaults: the transport has no word for a fault of one side's own, so that
	// the other side sees the connection end in order (InfiniBand, RoCE).
	SilentFaults bool
	// VagueErrors: the device tells less than it could, as Linux's rxe and siw do. A
	// request that can't be executed for a cause on its own side completes with
	// LOC_QP_OP_ERR or GENERAL_ERR, or, if it is a send, as flushed, and so do those
	// before it that were not acknowledged yet; and a READ may leave a part of its
	// data behind when it fails.
	VagueErrors bool
	// LaxReads: the device serves RDMA READs of regions that don't allow them, as
	// Linux's siw does. Programs then rely on bounds and domains alone.
	LaxReads bool
	// MoreReads: the device raises a side's read resources to what the peer asks for, as
	// Linux's siw does.
	MoreReads bool
	// StaleEmptyReads: a responder that is busy answers an RDMA READ of nothing with what
	// another READ has asked for, as Linux's siw does.
	StaleEmptyReads bool
}

// Case is one test of the suite.
type Case struct {
	Name string
	Run  func(*testing.T, *Env)
}

// All are the cases, in the order in which Test runs them.
var All = slices.Concat(
	deviceCases, pdCases, mrCases,
	cqCases, cqEventCases, cqHandlerCases,
	qpCases, stateCases, flushCases,
	transferCases, sgeCases, sendFlagCases, queueCases, orderCases, readCases,
	cmCases, privateDataCases, endCases, lifeCases, processCases,
	localErrorCases, remoteErrorCases, receiveErrorCases, deregCases,
	integrityCases, allocCases,
)

// Test runs every case of All as a subtest of t.
func Test(t *testing.T, f Fabric) {
	if addr := os.Getenv(peerEnv); addr != "" {
		servePeer(t, f, addr)
		return
	}
	dev, suite := warmUp(t, f), t.Name()
	for _, c := range All {
		t.Run(c.Name, func(t *testing.T) {
			checkLeaks(t)
			c.Run(t, &Env{T: t, Fabric: f, Device: dev, suite: suite})
		})
	}
}

// warmUp makes one connection, so that what provider and runtime make once and
// keep is there before leaks are counted, and returns the device of the address.
// It is no subtest, which -run could leave out; the connection lives until the
// suite ends.
func warmUp(t *testing.T, f Fabric) verbs.Device {
	t.Helper()
	e := &Env{T: t, Fabric: f}
	e.Device = e.Resolve(f.Listen).Device()
	e.Pair(nil).RoundTrip()
	return e.Device
}
