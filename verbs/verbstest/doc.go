// Package verbstest is the conformance suite of the verbs interface: every
// provider must pass it, and a program that uses verbs may rely on what it
// checks.
//
//	func TestConformance(t *testing.T) {
//		verbstest.Test(t, verbstest.Fabric{Provider: p, Listen: addr})
//	}
//
// [Test] runs the named cases of [All], in order, as subtests, so that one can
// be picked with -run. Each case says in a comment what it protects.
//
// # How a case works
//
//  1. Test hands it an [Env]: the provider, the device that the listen address
//     leads to, and helpers.
//  2. [Env.Pair] makes two connected QPs in this process, a client and a server
//     [Side], each with its own protection domain and completion queues. Cases
//     about connection management make the sides one at a time.
//  3. The case posts work and takes completions from a [Queue], which hides
//     which of the three kinds of completion queue is under it, and gives up
//     after a while instead of hanging.
//  4. What was made is destroyed when the case ends, children first, and every
//     refusal to be destroyed fails the case. Goroutines and file descriptors
//     that are left over fail it too.
//
// Some cases need a peer that can be stopped and killed. They run the test
// program a second time ([Env.Process]), so Test must be reached in the same
// way in that copy: by the name of the test that called it.
//
// # Transports without acknowledgement
//
// InfiniBand completes a SEND or an RDMA WRITE when the peer has acknowledged
// it, iWARP as soon as it was handed over. Where the peer refuses such a request
// the suite therefore takes a successful completion too, and holds the provider
// to the rest: nothing placed, both QPs in ERR, all other work flushed once.
//
// A case that needs what a device does not have, by its [verbs.DeviceAttr] or
// its Fabric, is skipped by [Env.Need], which says why.
package verbstest
