package wiretest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// CMAttribute is the attribute of a MAD of the InfiniBand communication management class.
type CMAttribute uint16

// The messages that carry private data of the consumer.
const (
	CMREQ CMAttribute = 0x10
	CMREJ CMAttribute = 0x12
	CMREP CMAttribute = 0x13
)

// A CMMessage is the private data of one connection management message, with the padding of its MAD.
type CMMessage struct {
	Attribute   CMAttribute
	PrivateData []byte
}

// A RoCESend is one SEND message of a reliable connection.
type RoCESend struct {
	DestQP     uint32
	Invalidate uint32 // the key to invalidate, or 0
	Payload    []byte
}

// RoCE is what ReadRoCE finds in a recording, in its order.
type RoCE struct {
	CM    []CMMessage
	Sends []RoCESend
}

const (
	pcapHead, pcapRecordHead = 24, 16
	ethernetIPv4UDPHead      = 14 + 20 + 8
	rocePort                 = 4791
	bthSize, dethSize        = 12, 8
	iethSize, icrcSize       = 4, 4
	madHead                  = 24
)

// LoadRoCE reads a pcap file, compressed with gzip if its name ends in ".gz".
func LoadRoCE(path string) (*RoCE, error) { return load(path, ReadRoCE) }

// ReadRoCE reads a little-endian pcap file of Ethernet frames. Frames that are not RoCEv2 over IPv4 are skipped.
func ReadRoCE(r io.Reader) (*RoCE, error) {
	var head [pcapHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, fmt.Errorf("pcap header: %w", err)
	}
	if binary.LittleEndian.Uint32(head[:]) != 0xA1B2C3D4 {
		return nil, errors.New("not a little-endian pcap file")
	}
	p := roceParser{partial: make(map[uint32][]byte), seen: make(map[[2]uint32]bool)}
	for {
		var record [pcapRecordHead]byte
		if _, err := io.ReadFull(r, record[:]); err == io.EOF {
			return &p.out, nil
		} else if err != nil {
			return nil, fmt.Errorf("pcap record: %w", err)
		}
		frame := make([]byte, binary.LittleEndian.Uint32(record[8:])&0xFFFF)
		if _, err := io.ReadFull(r, frame); err != nil {
			return nil, fmt.Errorf("pcap frame: %w", err)
		}
		p.frame(frame)
	}
}

type roceParser struct {
	out     RoCE
	partial map[uint32][]byte  // payload of an unfinished message, by destination QP
	seen    map[[2]uint32]bool // destination QP and PSN, to drop what was sent again
}

// frame takes one Ethernet frame.
func (p *roceParser) frame(b []byte) {
	if len(b) < ethernetIPv4UDPHead+bthSize+icrcSize || binary.BigEndian.Uint16(b[12:]) != 0x0800 ||
		b[14] != 0x45 || b[23] != 17 || binary.BigEndian.Uint16(b[36:]) != rocePort {
		return
	}
	bth := b[ethernetIPv4UDPHead:]
	pad := int(bth[1] >> 4 & 3)
	qp := binary.BigEndian.Uint32(bth[4:]) & 0xFFFFFF
	psn := binary.BigEndian.Uint32(bth[8:]) & 0xFFFFFF
	body := bth[bthSize : len(bth)-icrcSize]
	switch op := bth[0]; op {
	case 100: // UD SEND Only
		if qp == 1 && len(body) > dethSize {
			p.mad(body[dethSize:])
		}
	case 0, 1, 2, 4, 22, 23: // RC SEND First, Middle, Last, Only; Last and Only with Invalidate
		if p.seen[[2]uint32{qp, psn}] {
			return
		}
		p.seen[[2]uint32{qp, psn}] = true
		s := RoCESend{DestQP: qp}
		if op >= 22 {
			s.Invalidate = binary.BigEndian.Uint32(body)
			body = body[iethSize:]
		}
		p.partial[qp] = append(p.partial[qp], body[:len(body)-pad]...)
		if op >= 2 {
			s.Payload = p.partial[qp]
			delete(p.partial, qp)
			p.out.Sends = append(p.out.Sends, s)
		}
	}
}

// mad takes a management datagram: it keeps the part of the private data that belongs to the consumer.
func (p *roceParser) mad(b []byte) {
	if len(b) < 256 || b[1] != 0x07 {
		return
	}
	m := CMMessage{Attribute: CMAttribute(binary.BigEndian.Uint16(b[16:]))}
	switch m.Attribute {
	case CMREQ:
		m.PrivateData = b[madHead+140+36 : 256] // behind the header that RDMA CM has for IP addresses
	case CMREJ:
		m.PrivateData = b[madHead+84 : 256]
	case CMREP:
		m.PrivateData = b[madHead+36 : 256]
	default:
		return
	}
	p.out.CM = append(p.out.CM, m)
}
