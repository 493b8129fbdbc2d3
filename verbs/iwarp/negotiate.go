package iwarp

import (
	"errors"
	"fmt"

	"rbd/verbs"
	"rbd/verbs/iwarp/internal/frame"
)

// checkParam holds what a program asks for to what the device has.
func checkParam(p verbs.ConnParam) error {
	switch {
	case len(p.PrivateData) > maxPrivateData:
		return fmt.Errorf("%d bytes of private data, at most %d are possible: %w", len(p.PrivateData), maxPrivateData, verbs.ErrInvalid)
	case p.ResponderResources < 0 || p.ResponderResources > maxIRD:
		return fmt.Errorf("responder resources %d are not in 0..%d: %w", p.ResponderResources, maxIRD, verbs.ErrInvalid)
	case p.InitiatorDepth < 0 || p.InitiatorDepth > maxORD:
		return fmt.Errorf("initiator depth %d is not in 0..%d: %w", p.InitiatorDepth, maxORD, verbs.ErrInvalid)
	}
	return nil
}

// powerOfTwo rounds an IRD up, since Soft-iWARP rounds up how many reads it has
// outstanding. Zero stays zero.
func powerOfTwo(n int) int {
	if n == 0 {
		return 0
	}
	return int(ringSize(n))
}

// peerParam is what a frame says of its sender, in the words of the API. A peer
// that does not negotiate is taken as able to do what this device can.
func peerParam(m *frame.MPA) verbs.ConnParam {
	p := verbs.ConnParam{PrivateData: m.Private, ResponderResources: maxORD, InitiatorDepth: maxIRD}
	if m.Enhanced && m.IRD != frame.NoNegotiation {
		p.ResponderResources = int(m.IRD)
	}
	if m.Enhanced && m.ORD != frame.NoNegotiation {
		p.InitiatorDepth = int(m.ORD)
	}
	return p
}

// requestFrame is the frame of the active side: always revision 2, enhanced.
func requestFrame(p verbs.ConnParam, crc bool) *frame.MPA {
	return &frame.MPA{Revision: 2, Enhanced: true, CRC: crc, Private: p.PrivateData,
		IRD: uint16(powerOfTwo(p.ResponderResources)), ORD: uint16(p.InitiatorDepth)}
}

// replyFrame answers a request in the request's revision. ORD never exceeds the
// peer's IRD. Of a request for peer-to-peer mode one RTR message is chosen: RDMA
// READ if offered, which needs an IRD of 1, else RDMA WRITE.
func replyFrame(req *frame.MPA, p verbs.ConnParam, crc bool) (m *frame.MPA, inForce verbs.ConnParam) {
	peer := peerParam(req)
	inForce = verbs.ConnParam{PrivateData: p.PrivateData,
		ResponderResources: min(powerOfTwo(p.ResponderResources), peer.InitiatorDepth), InitiatorDepth: min(p.InitiatorDepth, peer.ResponderResources)}
	m = &frame.MPA{Reply: true, Revision: req.Revision, Enhanced: req.Enhanced, CRC: req.CRC || crc, Private: p.PrivateData,
		IRD: uint16(inForce.ResponderResources), ORD: uint16(inForce.InitiatorDepth)}
	if req.P2P {
		m.P2P, m.RTRRead, m.RTRWrite = true, req.RTRRead, !req.RTRRead
		if m.RTRRead {
			m.IRD = max(m.IRD, 1)
		}
	}
	return m, inForce
}

// acceptReply is the active side's view of an accepting reply: the peer's
// parameters, and the link that comes of it.
func acceptReply(req, rep *frame.MPA) (verbs.ConnParam, link, error) {
	if rep.Markers {
		return verbs.ConnParam{}, link{}, errors.New("peer wants MPA markers, which are not supported")
	}
	p := peerParam(rep)
	l := link{crc: req.CRC || rep.CRC, ird: int(req.IRD), ord: min(int(req.ORD), p.ResponderResources)}
	p.InitiatorDepth = min(p.InitiatorDepth, l.ird)
	return p, l, nil
}
