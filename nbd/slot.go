package nbd

import "fmt"

// slotState tells who owns a slot.
type slotState uint8

const (
	slotFree      slotState = iota // the free list
	slotReading                    // the reader, which fills it in
	slotSubmitted                  // the device
	slotCollected                  // completed, until the parts before it are, too
	slotSending                    // the send queue
)

func (s slotState) String() string {
	return [...]string{"free", "reading", "submitted", "collected", "sending"}[s]
}

// slotMoves are the legal changes of state, as a set of successors.
var slotMoves = [...]uint8{
	slotFree:      1 << slotReading,
	slotReading:   1<<slotSubmitted | 1<<slotSending | 1<<slotFree,
	slotSubmitted: 1<<slotCollected | 1<<slotSending | 1<<slotFree,
	slotCollected: 1<<slotSending | 1<<slotFree,
	slotSending:   1 << slotFree,
}

// slot holds a command of the client, a device request, or, for nearly all
// commands, both. A command that is longer than one device request has a slot
// of its own, the head, and one for each part in hand. A slot queues at most
// one reply header.
type slot struct {
	req   Request
	state slotState
	size  int   // bytes of device memory reserved for it
	head  *slot // the command's slot; the slot itself when it is not a part

	// The command.
	cmd            uint16
	cookie         uint64
	offset, length uint64
	errno          Error // the first error of a part

	// Of a command in parts.
	left      uint64 // parts that still have a slot, or will have one
	abandoned bool   // the reader ended before it had made all parts

	// Of a READ whose parts go out in order behind one header.
	inOrder     bool
	waiting     uint64 // parts to complete before the first may go out
	started     bool   // the header is in the send queue
	first, last *slot  // parts that the device has or that are collected
	next        *slot
}

// to changes the state. An illegal change is an error of a device, such as a
// request that is completed twice: going on would answer a wrong request.
func (s *slot) to(next slotState) {
	if slotMoves[s.state]&(1<<next) == 0 {
		panic(fmt.Sprintf("nbd: request %d becomes %v, but it is %v", s.req.Index, next, s.state))
	}
	s.state = next
}

// begin makes the slot the head of a command.
func (s *slot) begin(h *header, parts uint64) {
	s.head, s.next = s, nil
	s.cmd, s.cookie, s.offset, s.length = h.cmd, h.cookie, h.offset, h.length
	s.errno, s.left, s.abandoned = 0, parts, false
	s.inOrder, s.waiting, s.started = false, 0, false
	s.first, s.last = nil, nil
}

// set fills in the device request for a range of the command h.
func (s *slot) set(h *header, op Op, offset, length uint64) {
	r := &s.req
	r.Op, r.Offset, r.Length, r.Err = op, offset, length, nil
	r.FUA = h.flags&cmdFlagFUA != 0
	r.NoHole = h.flags&cmdFlagNoHole != 0
	r.FastZero = h.flags&cmdFlagFastZero != 0
}

// link puts a part behind those of its command that are to go out before it.
func (s *slot) link() {
	h := s.head
	s.next = nil
	if h.last == nil {
		h.first = s
	} else {
		h.last.next = s
	}
	h.last = s
}

// takeFirst takes the first part off the list of those not yet sent.
func (s *slot) takeFirst() *slot {
	p := s.first
	if s.first = p.next; s.first == nil {
		s.last = nil
	}
	return p
}
