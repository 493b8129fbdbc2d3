package nbdtest

import (
	"fmt"
	"io"
	"net"
)

// Request is a request as the client sends it. A WRITE's Length is that of its
// Payload if it is 0.
type Request struct {
	Flags, Cmd     uint16
	Cookie         uint64
	Offset, Length uint64
	Payload        []byte
}

// Append appends the request as it is on the wire in a mode.
func (r Request) Append(b []byte, mode Mode) []byte {
	if r.Length == 0 {
		r.Length = uint64(len(r.Payload))
	}
	magic := uint32(0x25609513)
	if mode == Extended {
		magic = 0x21e41c71
		if r.Cmd == CmdWrite {
			r.Flags |= FlagPayloadLen
		}
	}
	b = be.AppendUint32(b, magic)
	b = be.AppendUint16(b, r.Flags)
	b = be.AppendUint16(b, r.Cmd)
	b = be.AppendUint64(b, r.Cookie)
	b = be.AppendUint64(b, r.Offset)
	if mode == Extended {
		b = be.AppendUint64(b, r.Length)
	} else {
		b = be.AppendUint32(b, uint32(r.Length))
	}
	return append(b, r.Payload...)
}

// Expect notes a request that is sent by other means than Send.
func (c *Client) Expect(r Request) {
	delete(c.reads, r.Cookie)
	if r.Cmd == CmdRead {
		c.reads[r.Cookie] = r.Length
	}
}

// Send sends requests in one go.
func (c *Client) Send(reqs ...Request) error {
	var b []byte
	for _, r := range reqs {
		c.Expect(r)
		b = r.Append(b, c.Mode)
	}
	_, err := c.Write(b)
	return err
}

// Reply is one simple reply, or one chunk.
type Reply struct {
	Cookie uint64
	Error  uint32
	Type   uint16 // of a chunk
	Done   bool   // true for simple replies
	Offset uint64 // of the chunk's data; of the request for extended chunks of other types
	Data   []byte // what was read, or the raw payload of other types
}

// Recv takes one reply or chunk.
func (c *Client) Recv() (Reply, error) {
	var b [32]byte
	if _, err := io.ReadFull(c, b[:16]); err != nil {
		return Reply{}, fmt.Errorf("read reply: %w", err)
	}
	magic := be.Uint32(b[:])
	r := Reply{Cookie: be.Uint64(b[8:])}
	if magic == 0x67446698 && c.Mode != Extended {
		r.Error, r.Done = be.Uint32(b[4:]), true
		if n, ok := c.reads[r.Cookie]; ok && c.Mode == Simple && r.Error == 0 {
			r.Data = make([]byte, n)
		}
		_, err := io.ReadFull(c, r.Data)
		return r, err
	}
	r.Done, r.Type = be.Uint16(b[4:])&1 != 0, be.Uint16(b[6:])
	var n uint64
	switch {
	case magic == 0x668e33ef && c.Mode == Structured:
		if _, err := io.ReadFull(c, b[16:20]); err != nil {
			return r, err
		}
		n = uint64(be.Uint32(b[16:]))
	case magic == 0x6e8a278c && c.Mode == Extended:
		if _, err := io.ReadFull(c, b[16:]); err != nil {
			return r, err
		}
		r.Offset, n = be.Uint64(b[16:]), be.Uint64(b[24:])
	default:
		return r, fmt.Errorf("reply has magic %#x in mode %v", magic, c.Mode)
	}
	if n > 64<<20 {
		return r, fmt.Errorf("chunk has a payload of %d bytes", n)
	}
	r.Data = make([]byte, n)
	if _, err := io.ReadFull(c, r.Data); err != nil {
		return r, err
	}
	switch {
	case r.Type == ReplyOffsetData && n > 8:
		r.Offset, r.Data = be.Uint64(r.Data), r.Data[8:]
	case r.Type == ReplyError && n >= 6:
		r.Error = be.Uint32(r.Data)
	case r.Type == ReplyNone && n == 0 && r.Done:
	case (r.Type == ReplyBlockStatus) == (c.Mode == Structured) && n > 8:
	default:
		return r, fmt.Errorf("chunk of type %#x has %d bytes", r.Type, n)
	}
	return r, nil
}

// Do sends a request and takes its whole reply, while no other is outstanding.
// Data of a READ is assembled.
func (c *Client) Do(req Request) (Reply, error) {
	if err := c.Send(req); err != nil {
		return Reply{}, err
	}
	if c.Mode == Simple || req.Cmd != CmdRead {
		r, err := c.Recv()
		if err == nil && (!r.Done || r.Cookie != req.Cookie) {
			err = fmt.Errorf("reply to %#x, done %v, is not the only one to %#x", r.Cookie, r.Done, req.Cookie)
		}
		return r, err
	}
	var data []byte
	got := uint64(0)
	for {
		r, err := c.Recv()
		if err != nil {
			return r, err
		}
		if r.Cookie != req.Cookie {
			return r, fmt.Errorf("reply to %#x, not %#x", r.Cookie, req.Cookie)
		}
		if r.Type == ReplyOffsetData {
			if data == nil {
				data = make([]byte, req.Length)
			}
			at := r.Offset - req.Offset
			if at > req.Length || uint64(len(r.Data)) > req.Length-at {
				return r, fmt.Errorf("chunk %d+%d is outside the request", r.Offset, len(r.Data))
			}
			got += uint64(copy(data[at:], r.Data))
		}
		if r.Done {
			if r.Error == 0 && got != req.Length {
				return r, fmt.Errorf("read answered %d of %d bytes", got, req.Length)
			}
			r.Data = data
			return r, nil
		}
	}
}

// Handed is a client, with simple replies, of a server that does not negotiate
// (nbd.Server.ServeTransmission).
func Handed(nc net.Conn) *Client {
	return &Client{Conn: nc, reads: make(map[uint64]uint64)}
}
