package nbd

import (
	"encoding/binary"
	"fmt"
)

// handle answers the option in hand, with all its data.
func (h *handshake) handle(data []byte) error {
	switch h.option {
	case optExportName:
		return h.exportName(data)
	case optAbort:
		h.reply(repAck)
		h.state = aborted
	case optList:
		h.list(data)
	case optInfo, optGo:
		h.info(data)
	case optStructuredReply:
		h.setMode(data, modeStructured)
	case optExtendedHeaders:
		h.setMode(data, modeExtended)
	case optListMetaContext, optSetMetaContext:
		h.metaContext(data)
	case optStartTLS:
		h.fail(repErrUnsup, "TLS is not supported")
	default:
		h.fail(repErrUnsup, "option %d is not known", h.option)
	}
	return nil
}

// find is the export of that name; the first one for the empty name, unless
// an export is called so. nil if there is none.
func (h *handshake) find(name []byte) *Export {
	for i := range h.exports {
		if h.exports[i].Name == string(name) {
			return &h.exports[i]
		}
	}
	if len(name) == 0 && len(h.exports) > 0 {
		return &h.exports[0]
	}
	return nil
}

// agree makes the session for an export.
func (h *handshake) agree(e *Export) error {
	info, err := e.Device.Info().normalize()
	if err != nil {
		return fmt.Errorf("export %q can't be served: %w", e.Name, err)
	}
	meta := h.metadata == e && h.mode != modeSimple
	h.session = session{export: e, info: info, mode: h.mode, metadata: meta,
		flags: transmissionFlags(&info, h.mode, meta)}
	return nil
}

// exportName is NBD_OPT_EXPORT_NAME, which can't answer errors.
func (h *handshake) exportName(name []byte) error {
	if h.mode == modeExtended {
		return fmt.Errorf("%w: NBD_OPT_EXPORT_NAME after extended headers", errHandshake)
	}
	e := h.find(name)
	if e == nil {
		return fmt.Errorf("%w: no export is called %.100q", errHandshake, name)
	}
	if err := h.agree(e); err != nil {
		return err
	}
	h.out = binary.BigEndian.AppendUint64(h.out, h.session.info.Size)
	h.out = binary.BigEndian.AppendUint16(h.out, h.session.flags)
	if !h.noZeroes {
		h.out = append(h.out, make([]byte, 124)...)
	}
	h.state = negotiated
	return nil
}

func (h *handshake) list(data []byte) {
	if len(data) != 0 {
		h.fail(repErrInvalid, "NBD_OPT_LIST has no data")
		return
	}
	for i := range h.exports {
		e := &h.exports[i]
		h.reply(repServer, binary.BigEndian.AppendUint32(nil, uint32(len(e.Name))), []byte(e.Name), []byte(e.Description))
	}
	h.reply(repAck)
}

// info is NBD_OPT_INFO and NBD_OPT_GO. Block sizes are told even to those who
// did not ask: a client that knows them keeps to them.
func (h *handshake) info(data []byte) {
	name, rest, ok := takeString(data)
	if !ok || len(rest) < 2 || len(rest[2:]) != 2*int(binary.BigEndian.Uint16(rest)) {
		h.fail(repErrInvalid, "option data is malformed")
		return
	}
	e := h.find(name)
	if e == nil {
		h.fail(repErrUnknown, "no export has this name")
		return
	}
	if err := h.agree(e); err != nil {
		h.fail(repErrPlatform, "%v", err)
		return
	}
	be := binary.BigEndian
	info := func(kind uint16, data []byte) { h.reply(repInfo, be.AppendUint16(nil, kind), data) }
	d := &h.session.info
	info(infoExport, be.AppendUint16(be.AppendUint64(nil, d.Size), h.session.flags))
	info(infoBlockSize, be.AppendUint32(be.AppendUint32(be.AppendUint32(nil, d.MinBlock), d.PreferredBlock), maxPayload))
	for rest = rest[2:]; len(rest) > 0; rest = rest[2:] {
		switch kind := be.Uint16(rest); kind {
		case infoName:
			info(kind, []byte(e.Name))
		case infoDescription:
			if e.Description != "" {
				info(kind, []byte(e.Description))
			}
		}
	}
	h.reply(repAck)
	if h.option == optGo {
		h.state = negotiated
	}
}

func (h *handshake) setMode(data []byte, mode replyMode) {
	switch {
	case len(data) != 0:
		h.fail(repErrInvalid, "the option has no data")
	case mode < h.mode:
		h.fail(repErrExtHeaderReq, "extended headers are agreed already")
	default:
		h.mode = mode
		h.reply(repAck)
	}
}

// metaContext is NBD_OPT_LIST_META_CONTEXT and NBD_OPT_SET_META_CONTEXT. They
// differ in what no query and the wildcard "base:" mean: everything, or nothing.
func (h *handshake) metaContext(data []byte) {
	set := h.option == optSetMetaContext
	if set {
		h.metadata = nil // a failure, too, unselects what was
	}
	if h.mode == modeSimple {
		h.fail(repErrInvalid, "structured replies must be agreed first")
		return
	}
	name, rest, ok := takeString(data)
	if !ok || len(rest) < 4 {
		h.fail(repErrInvalid, "option data is malformed")
		return
	}
	queries := binary.BigEndian.Uint32(rest)
	rest = rest[4:]
	match := queries == 0 && !set
	for range queries {
		var query []byte
		if query, rest, ok = takeString(rest); !ok {
			h.fail(repErrInvalid, "option data is malformed")
			return
		}
		if string(query) == contextAllocation || string(query) == "base:" && !set {
			match = true
		}
	}
	e := h.find(name)
	switch {
	case len(rest) != 0:
		h.fail(repErrInvalid, "option data is malformed")
		return
	case e == nil:
		h.fail(repErrUnknown, "no export has this name")
		return
	case match && set:
		h.metadata = e
		h.reply(repMetaContext, binary.BigEndian.AppendUint32(nil, contextAllocationID), []byte(contextAllocation))
	case match:
		h.reply(repMetaContext, binary.BigEndian.AppendUint32(nil, 0), []byte(contextAllocation))
	}
	h.reply(repAck)
}

// takeString takes a string with its 32-bit length from the front of b.
func takeString(b []byte) (s, rest []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	n := uint64(binary.BigEndian.Uint32(b))
	if n > uint64(len(b)-4) {
		return nil, nil, false
	}
	return b[4 : 4+n], b[4+n:], true
}
