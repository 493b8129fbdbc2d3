package nbdtest

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

var be = binary.BigEndian

// Numbers of the protocol, as far as tests need their names.
const (
	OptExportName, OptAbort, OptList, OptStartTLS, OptInfo, OptGo                 = 1, 2, 3, 5, 6, 7
	OptStructuredReply, OptListMetaContext, OptSetMetaContext, OptExtendedHeaders = 8, 9, 10, 11

	RepAck, RepServer, RepInfo, RepMetaContext = 1, 2, 3, 4
	RepErrUnsup                                = 0x80000001
	RepErrInvalid                              = 0x80000003
	RepErrUnknown                              = 0x80000006
	RepErrTooBig                               = 0x80000009
	RepErrExtHeaderReqd                        = 0x8000000a

	CmdRead, CmdWrite, CmdDisc, CmdFlush, CmdTrim, CmdCache, CmdWriteZeroes, CmdBlockStatus = 0, 1, 2, 3, 4, 5, 6, 7

	FlagFUA, FlagNoHole, FlagDF, FlagReqOne, FlagFastZero, FlagPayloadLen = 1, 2, 4, 8, 16, 32

	ReplyNone, ReplyOffsetData, ReplyBlockStatus, ReplyBlockStatusExt = 0, 1, 5, 6
	ReplyError                                                        = 0x8001
)

// Mode is the form of replies a client asks for.
type Mode int

// The modes.
const (
	Simple Mode = iota
	Structured
	Extended
)

func (m Mode) String() string { return [...]string{"simple", "structured", "extended"}[m] }

// Client is one NBD connection. It is used by one goroutine, or by one that
// sends and one that receives when the mode is not Simple.
type Client struct {
	net.Conn
	Mode  Mode
	Size  uint64 // of the export
	Flags uint16 // transmission flags

	reads map[uint64]uint64 // lengths by cookie, needed to understand simple replies
}

// OptionReply is one reply of the negotiation.
type OptionReply struct {
	Option, Type uint32
	Data         []byte
}

// Greet takes the server's greeting and sends the client flags.
func Greet(conn net.Conn, flags uint32) (*Client, error) {
	c := &Client{Conn: conn, reads: make(map[uint64]uint64)}
	var b [18]byte
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		return nil, fmt.Errorf("read greeting: %w", err)
	}
	if string(b[:16]) != "NBDMAGICIHAVEOPT" || be.Uint16(b[16:]) != 3 {
		return nil, fmt.Errorf("greeting is %x", b)
	}
	_, err := conn.Write(be.AppendUint32(nil, flags))
	return c, err
}

// AppendOption appends an option as it is on the wire.
func AppendOption(b []byte, option uint32, data []byte) []byte {
	b = append(b, "IHAVEOPT"...)
	b = be.AppendUint32(b, option)
	b = be.AppendUint32(b, uint32(len(data)))
	return append(b, data...)
}

// AppendString appends a string with its length.
func AppendString(b []byte, s string) []byte {
	return append(be.AppendUint32(b, uint32(len(s))), s...)
}

// ExportQuery is the data of NBD_OPT_INFO and NBD_OPT_GO.
func ExportQuery(name string, infos ...uint16) []byte {
	b := be.AppendUint16(AppendString(nil, name), uint16(len(infos)))
	for _, i := range infos {
		b = be.AppendUint16(b, i)
	}
	return b
}

// ContextQuery is the data of the two options for metadata contexts.
func ContextQuery(name string, queries ...string) []byte {
	b := be.AppendUint32(AppendString(nil, name), uint32(len(queries)))
	for _, q := range queries {
		b = AppendString(b, q)
	}
	return b
}

// Option sends an option and takes all replies up to the final one.
func (c *Client) Option(option uint32, data []byte) ([]OptionReply, error) {
	if _, err := c.Write(AppendOption(nil, option, data)); err != nil {
		return nil, err
	}
	var all []OptionReply
	for {
		r, err := c.OptionReply()
		if err != nil {
			return all, err
		}
		if r.Option != option {
			return all, fmt.Errorf("reply to option %d, not %d", r.Option, option)
		}
		all = append(all, r)
		if r.Type == RepAck || r.Type>>31 == 1 {
			return all, nil
		}
	}
}

// OptionReply takes one reply.
func (c *Client) OptionReply() (r OptionReply, err error) {
	var b [20]byte
	if _, err := io.ReadFull(c, b[:]); err != nil {
		return r, fmt.Errorf("read option reply: %w", err)
	}
	if m := be.Uint64(b[:]); m != 0x3e889045565a9 {
		return r, fmt.Errorf("option reply has magic %#x", m)
	}
	r.Option, r.Type = be.Uint32(b[8:]), be.Uint32(b[12:])
	r.Data = make([]byte, be.Uint32(b[16:]))
	_, err = io.ReadFull(c, r.Data)
	return r, err
}

// Open negotiates: the mode, with metadata also base:allocation, and the export.
func Open(conn net.Conn, export string, mode Mode, metadata bool) (*Client, error) {
	c, err := Greet(conn, 3)
	if err != nil {
		return nil, err
	}
	c.Mode = mode
	if mode != Simple {
		option := uint32(OptStructuredReply)
		if mode == Extended {
			option = OptExtendedHeaders
		}
		if err := c.must(option, nil); err != nil {
			return nil, err
		}
	}
	if metadata {
		if err := c.must(OptSetMetaContext, ContextQuery(export, "base:allocation")); err != nil {
			return nil, err
		}
	}
	return c, c.must(OptGo, ExportQuery(export, 3))
}

// must sends an option that has to be acknowledged.
func (c *Client) must(option uint32, data []byte) error {
	all, err := c.Option(option, data)
	if err != nil {
		return err
	}
	for _, r := range all {
		if r.Type == RepInfo && len(r.Data) == 12 && be.Uint16(r.Data) == 0 {
			c.Size, c.Flags = be.Uint64(r.Data[2:]), be.Uint16(r.Data[10:])
		}
	}
	if last := all[len(all)-1]; last.Type != RepAck {
		return fmt.Errorf("option %d: reply %#x: %s", option, last.Type, last.Data)
	}
	return nil
}
