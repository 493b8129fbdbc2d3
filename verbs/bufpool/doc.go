// Package bufpool lends registered memory in pieces.
//
// A [Pool] is one memory region of fixed size, divided by the buddy method into
// blocks of [MinBlock] times a power of two, up to the block size chosen when it
// is made. Memory is therefore bounded and known at the start; who comes when it
// is used up waits in line.
//
//	TryGet          now or not at all
//	Get             waits on the calling goroutine
//	GetOrWait       now, or later through Waiter.Ready: for owners of queues, who
//	                must not block
//
// Those who wait are served strictly in the order in which they came, so that a
// large request is not starved by small ones: while somebody waits, TryGet fails.
//
// Where several users must not hold each other up, such as the hosts of a target, each
// has an [Account]. It is bounded by what it leaves free, and has a line of its own;
// the lines are served in turns, a request of each. A user that is over its share
// holds up nobody. One whose turn it is and for whom no block is large enough does, as
// what comes back would otherwise go to small requests for ever.
//
// [Move] registers the memory anew, on another device, while blocks are on loan.
//
// All methods are safe for concurrent use. Waiter.Ready is called without locks
// held, on the goroutine that called Put.
package bufpool
