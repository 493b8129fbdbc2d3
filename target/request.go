package target

import "rbd/wire"

// request is one admin or Fabrics command in the hands of a controller.
type request struct {
	sqe *wire.SQE
	// in is the data that came from the host, out the room for data that goes
	// there; a handler that succeeds fills out whole.
	in, out []byte
	result  uint64
	status  wire.Status
	// done is called, without locks held, when a request that was kept is
	// answered. Every kept request is, unless its queue goes away.
	done func(*request)
}

// fail answers with an error.
func (r *request) fail(s wire.Status) { r.status = s }

// fill puts a page into out: what does not fit is cut, the rest is zeros.
func (r *request) fill(page []byte) { clear(r.out[copy(r.out, page):]) }

// direction is where the data of a command goes.
type direction uint8

const (
	noData direction = iota
	toHost
	toController
)

// transfer is the data that a command moves.
type transfer struct {
	dir direction
	// n is the length in bytes.
	n uint32
	// atLeast lets the SGL be longer, up to maxDSMBytes: hosts send whole pages.
	atLeast bool
	// anySGL lets the command have an SGL that is not used.
	anySGL bool
}
