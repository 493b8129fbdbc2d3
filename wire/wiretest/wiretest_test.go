package wiretest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rbd/wire"
)

func stream(t *testing.T, name string) *Stream {
	t.Helper()
	s, err := LoadStream(filepath.Join("..", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Every byte of a recording must belong to a frame: a reader that skips some would let a test pass that has not seen them.
func TestStreamsAreCutWhole(t *testing.T) {
	for _, name := range []string{
		"siw-stream-admin-queue.txt.gz",
		"siw-stream-connect-unknown-nqn.txt.gz",
		"siw-stream-discover.txt.gz",
		"siw-stream-io-queue.txt.gz",
	} {
		s := stream(t, name)
		for side, half := range s.Halves {
			joined := bytes.Clone(half.MPA.Raw)
			for _, f := range half.FPDUs {
				joined = append(joined, f.Raw...)
			}
			if !bytes.Equal(joined, half.Bytes) {
				t.Errorf("%s: %s: the frames have %d of %d bytes", name, Side(side), len(joined), len(half.Bytes))
			}
			if !half.MPA.Enhanced || half.MPA.Revision != 2 || len(half.MPA.PrivateData) != wire.CMRequestSize {
				t.Errorf("%s: %s: MPA frame is %+v", name, Side(side), half.MPA)
			}
		}
	}
}

// Commands, data and responses must be put together completely: a read has all of its data written, a write has all of it read.
func TestExchangesAreComplete(t *testing.T) {
	for name, want := range map[string]struct{ commands, pending int }{
		"siw-stream-admin-queue.txt.gz":         {46, 1},
		"siw-stream-connect-unknown-nqn.txt.gz": {1, 0},
		"siw-stream-discover.txt.gz":            {15, 1},
		"siw-stream-io-queue.txt.gz":            {120, 0},
	} {
		exchanges, err := stream(t, name).Exchanges()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(exchanges) != want.commands {
			t.Errorf("%s: %d commands, want %d", name, len(exchanges), want.commands)
		}
		pending := 0
		for _, e := range exchanges {
			if !e.Answered {
				pending++
				continue
			}
			if moved := e.Written + uint64(len(e.DataOut)); e.Response.Status.OK() && moved != uint64(e.Command.SGL.Length) {
				t.Errorf("%s: command %d moved %d of %d bytes", name, e.Command.CID, moved, e.Command.SGL.Length)
			}
		}
		if pending != want.pending {
			t.Errorf("%s: %d commands are pending, want %d", name, pending, want.pending)
		}
	}
}

// A file that can't be read must be named in the error.
func TestLoadErrors(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain.txt.gz")
	if err := os.WriteFile(plain, []byte("00\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{plain, plain + ".missing", filepath.Join("..", "testdata", "nvmet-idns.txt")} {
		if _, err := LoadStream(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s as a stream: %v", path, err)
		}
		if _, err := LoadRoCE(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s as pcap: %v", path, err)
		}
	}
}

// The order of messages must be that of the connection, or a replay would answer a read before it was asked.
func TestMessagesAreInOrder(t *testing.T) {
	var got []string
	for _, m := range stream(t, "siw-stream-connect-unknown-nqn.txt.gz").Messages {
		got = append(got, m.From.String()+" "+m.Opcode.String())
	}
	want := "host send, target read request, host read response, target send with invalidate"
	if s := strings.Join(got, ", "); s != want {
		t.Errorf("messages are %s, want %s", s, want)
	}
}

const (
	plainRequest = "4d504120494420526571204672616d6500010000\n"
	plainReply   = "\t4d504120494420526570204672616d6500010000\n"
)

// A recording that is damaged must be refused, not half read.
func TestDamagedStream(t *testing.T) {
	for name, text := range map[string]string{
		"empty":              "",
		"not hexadecimal":    "zz\n",
		"one direction only": plainRequest,
		"cut MPA frame":      "4d504120494420526571204672616d6500010024\n" + plainReply,
		"no IRD and ORD":     "4d504120494420526571204672616d6510020000\n" + plainReply,
		"cut length":         plainRequest + plainReply + "00\n",
		"cut FPDU":           plainRequest + plainReply + "00524143\n",
		"no DDP header":      plainRequest + plainReply + "0002414300000000\n",
		"no untagged header": plainRequest + plainReply + "000e4143000000000000000000000000" + "00000000\n",
		"short read request": plainRequest + plainReply + "00124141" + "00000000" + "00000001" + "00000001" + "00000000" + "00000000\n",
		"wrong MO": plainRequest + plainReply +
			"00120143" + "00000000" + "00000000" + "00000001" + "00000000" + "00000000\n" +
			"00124143" + "00000000" + "00000000" + "00000001" + "00000004" + "00000000\n",
		"mixed segments": plainRequest + plainReply +
			"00120143" + "00000000" + "00000000" + "00000001" + "00000000" + "00000000\n" +
			"00124144" + "00000000" + "00000000" + "00000001" + "00000000" + "00000000\n",
		"wrong TO": plainRequest + plainReply +
			"000f8140" + "00000001" + "0000000000000000" + "aa000000" + "00000000\n" +
			"000ec140" + "00000001" + "0000000000000000" + "00000000\n",
	} {
		if _, err := ReadStream(strings.NewReader(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := ReadStream(strings.NewReader(plainRequest + plainReply)); err != nil {
		t.Errorf("undamaged: %v", err)
	}
}

// Messages that no NVMe queue has must be errors, not exchanges with holes.
func TestStrayMessages(t *testing.T) {
	sqe := wire.RangeSQE(wire.IORead, 1, 0, 1)
	sqe.SGL = wire.KeyedSGL(0x1000, 512, 7, true)
	command := Message{From: Host, Opcode: Send, Payload: sqe.Append(nil)}
	cqe := wire.CQE{CID: 5}
	for name, messages := range map[string][]Message{
		"short capsule":        {{From: Host, Opcode: Send, Payload: make([]byte, 63)}},
		"identifier in use":    {command, command},
		"unknown identifier":   {command, {From: Target, Opcode: Send, Payload: cqe.Append(nil)}},
		"short response":       {command, {From: Target, Opcode: Send, Payload: make([]byte, 15)}},
		"write beyond the end": {command, {From: Target, Opcode: Write, STag: 7, TO: 0x1001, Payload: make([]byte, 512)}},
		"write before":         {command, {From: Target, Opcode: Write, STag: 7, TO: 0xFFF, Payload: make([]byte, 1)}},
		"write by wrong key":   {command, {From: Target, Opcode: Write, STag: 8, TO: 0x1000, Payload: make([]byte, 1)}},
		"unasked data":         {command, {From: Host, Opcode: ReadResponse}},
		"wrong read answered":  {command, {From: Target, Opcode: ReadRequest}, {From: Host, Opcode: ReadResponse, STag: 1}},
		"terminate":            {{From: Target, Opcode: Terminate}},
	} {
		if _, err := (&Stream{Messages: messages}).Exchanges(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// The RoCE recording is of the same run as the iWARP ones: it must have its four connections and as many responses as commands, less the pending ones.
func TestRoCE(t *testing.T) {
	r, err := LoadRoCE(filepath.Join("..", "testdata", "nvme-rdma-over-rxe.pcap.gz"))
	if err != nil {
		t.Fatal(err)
	}
	count := map[CMAttribute]int{}
	for _, m := range r.CM {
		count[m.Attribute]++
	}
	if count[CMREQ] != 4 || count[CMREP] != 4 {
		t.Errorf("%d requests and %d replies, want 4 and 4", count[CMREQ], count[CMREP])
	}
	commands, responses := 0, 0
	for _, s := range r.Sends {
		if len(s.Payload) == wire.CQESize {
			responses++
		} else {
			commands++
		}
	}
	if commands == 0 || commands != responses+2 {
		t.Errorf("%d commands and %d responses, want two more commands", commands, responses)
	}
}
