package nbd

import (
	"fmt"
	"net"
)

// TransmissionFlags are the flags of NBD's handshake for a device (proto.md,
// "Transmission flags"), for who tells a client of them by other means.
func TransmissionFlags(info DeviceInfo) (uint16, error) {
	info, err := info.normalize()
	if err != nil {
		return 0, err
	}
	return transmissionFlags(&info, modeSimple, false), nil
}

// ServeTransmission serves one connected socket whose client begins with the
// transmission phase: the Linux kernel, which is handed a socket and the result of
// a handshake. Replies are simple ones. It returns when all requests that were
// read have come back from the device and the socket is closed: nil after
// NBD_CMD_DISC, io.EOF when the client has left without, else what went wrong.
func (s *Server) ServeTransmission(nc net.Conn, e Export) error {
	info, err := e.Device.Info().normalize()
	if err != nil {
		nc.Close()
		return fmt.Errorf("export %q can't be served: %w", e.Name, err)
	}
	c, err := s.open(nc, s.log.With("client", "kernel"))
	if err != nil {
		return err
	}
	defer s.leave(c)
	c.sess = session{export: &e, info: info, mode: modeSimple, flags: transmissionFlags(&info, modeSimple, false)}
	return c.transmission(s.stall)
}
