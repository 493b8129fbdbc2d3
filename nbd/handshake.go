package nbd

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// handshakeState is where the negotiation stands.
type handshakeState uint8

const (
	awaitClientFlags handshakeState = iota
	awaitOption
	skipOption // inside the data of an option that is too long
	negotiated // session is valid, transmission begins with the next byte
	aborted    // the client sent NBD_OPT_ABORT, to be closed once out is sent
)

func (s handshakeState) String() string {
	return [...]string{"await client flags", "await option", "skip option", "negotiated", "aborted"}[s]
}

// maxOption is the most data of one option that is looked at: room for a name
// of 4096 bytes and some hundreds of queries.
const maxOption = 32 << 10

// errHandshake is wrapped by what makes the server close the connection, as
// the protocol has it where no error can be answered.
var errHandshake = errors.New("handshake")

// handshake is the server's side of fixed newstyle negotiation. It does no I/O:
// step takes bytes of the client, out collects what to send.
type handshake struct {
	exports []Export
	state   handshakeState
	out     []byte

	noZeroes bool
	mode     replyMode
	metadata *Export // for which base:allocation is selected, nil if for none

	skip   uint64 // bytes left in skipOption
	option uint32 // option in hand

	session session
}

// newHandshake begins with the server's greeting.
func newHandshake(exports []Export) *handshake {
	h := &handshake{exports: exports}
	h.out = binary.BigEndian.AppendUint64(h.out, nbdMagic)
	h.out = binary.BigEndian.AppendUint64(h.out, optMagic)
	h.out = binary.BigEndian.AppendUint16(h.out, flagFixedNewstyle|flagNoZeroes)
	return h
}

// step takes one message from the front of in and says how many bytes that
// were; 0 when in does not yet hold all of it. It is called until the state is
// negotiated or aborted. An error means that the connection must be closed.
func (h *handshake) step(in []byte) (int, error) {
	switch h.state {
	case awaitClientFlags:
		return h.clientFlags(in)
	case skipOption:
		n := int(min(h.skip, uint64(len(in))))
		if h.skip -= uint64(n); h.skip == 0 {
			h.state = awaitOption
			h.fail(repErrTooBig, "option data is too long")
		}
		return n, nil
	case awaitOption:
		return h.nextOption(in)
	}
	return 0, nil
}

func (h *handshake) clientFlags(in []byte) (int, error) {
	if len(in) < 4 {
		return 0, nil
	}
	flags := binary.BigEndian.Uint32(in)
	if flags&^(flagFixedNewstyle|flagNoZeroes) != 0 {
		return 0, fmt.Errorf("%w: unknown client flags %#x", errHandshake, flags)
	}
	h.noZeroes = flags&flagNoZeroes != 0
	h.state = awaitOption
	return 4, nil
}

func (h *handshake) nextOption(in []byte) (int, error) {
	if len(in) >= 8 && binary.BigEndian.Uint64(in) != optMagic {
		return 0, fmt.Errorf("%w: option has a wrong magic number", errHandshake)
	}
	if len(in) < optionHeaderSize {
		return 0, nil
	}
	h.option = binary.BigEndian.Uint32(in[8:])
	length := uint64(binary.BigEndian.Uint32(in[12:]))
	if length > maxOption {
		if length > maxPayload || h.option == optExportName {
			return 0, fmt.Errorf("%w: option %d has %d bytes of data", errHandshake, h.option, length)
		}
		h.skip, h.state = length, skipOption
		return optionHeaderSize, nil
	}
	n := optionHeaderSize + int(length)
	if len(in) < n {
		return 0, nil
	}
	return n, h.handle(in[optionHeaderSize:n])
}

// reply appends one option reply.
func (h *handshake) reply(kind uint32, data ...[]byte) {
	n := 0
	for _, d := range data {
		n += len(d)
	}
	h.out = binary.BigEndian.AppendUint64(h.out, optReplyMagic)
	h.out = binary.BigEndian.AppendUint32(h.out, h.option)
	h.out = binary.BigEndian.AppendUint32(h.out, kind)
	h.out = binary.BigEndian.AppendUint32(h.out, uint32(n))
	for _, d := range data {
		h.out = append(h.out, d...)
	}
}

// fail answers an option with an error and a sentence for the client's user.
func (h *handshake) fail(kind uint32, format string, args ...any) {
	h.reply(kind, fmt.Appendf(nil, format, args...))
}
