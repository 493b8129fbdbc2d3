package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"runtime"
	"time"

	"rbd/verbs"
	"rbd/verbs/iwarp"
)

// end is one end of the RDMA side: the peer echoes every message; the first one
// that it sends by itself tells where its memory is.
type end struct {
	cm   verbs.CMID
	qp   verbs.QP
	mem  []byte // the message received, the message sent, then streamSize for RDMA WRITE
	mr   verbs.MR
	left int
	err  error
	done chan struct{}
	recv [1]verbs.RecvWR
	send [1]verbs.SendWR
	next []verbs.SendWR // what is posted for each message received
	more int            // how many times that is still done
}

func newEnd(cm verbs.CMID) (*end, error) {
	e := &end{cm: cm, done: make(chan struct{}, 1)}
	pd, err := cm.Device().AllocPD()
	if err != nil {
		return nil, err
	}
	if e.mem, err = verbs.AllocMemory(4096 + streamSize); err != nil {
		return nil, err
	}
	if e.mr, err = pd.RegMR(e.mem, verbs.AccessLocalWrite|verbs.AccessRemoteWrite); err != nil {
		return nil, err
	}
	cq, err := cm.Device().CreateCQ(verbs.CQAttr{Depth: 64, Handler: e.handle})
	if err != nil {
		return nil, err
	}
	e.qp, err = cm.CreateQP(pd, verbs.QPInitAttr{SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 64, MaxRecvWR: 16}})
	if err != nil {
		return nil, err
	}
	e.recv[0] = verbs.RecvWR{SGEs: []verbs.SGE{e.sge(0, pingSize)}}
	e.send[0] = verbs.SendWR{Opcode: verbs.WRSend, SGEs: []verbs.SGE{e.sge(pingSize, pingSize)}}
	e.next = e.send[:]
	return e, nil
}

func (e *end) sge(off, n int) verbs.SGE {
	return verbs.SGE{Addr: e.mr.Addr() + uint64(off), Length: uint32(n), LKey: e.mr.LKey()}
}

// handle takes the completions: each message received is the next turn.
func (e *end) handle(batch []verbs.WC) {
	for i := range batch {
		wc := &batch[i]
		switch {
		case wc.Status != verbs.WCSuccess:
			e.finish(fmt.Errorf("completion: %s", wc.Status))
		case wc.Opcode == verbs.WCRecv:
			if e.left--; e.left == 0 {
				e.finish(nil)
			}
			if e.more--; e.more < 0 {
				continue
			}
			if err := errors.Join(e.qp.PostRecv(e.recv[:]), e.qp.PostSend(e.next)); err != nil {
				e.finish(err)
			}
		}
	}
}

func (e *end) finish(err error) {
	e.err = err
	select {
	case e.done <- struct{}{}:
	default:
	}
}

func (e *end) close() { _ = e.cm.Destroy() }

// rdmaClient is the measuring end.
type rdmaClient struct {
	*end
	remote uint64
	rkey   uint32
}

func dialRDMA(addr verbs.Addr) (*rdmaClient, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cm, err := iwarp.New().ResolveAddr(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("reach the peer: %w", err)
	}
	e, err := newEnd(cm)
	if err != nil {
		return nil, err
	}
	p, err := cm.Connect(ctx, verbs.ConnParam{})
	if err != nil || len(p.PrivateData) < 12 {
		return nil, fmt.Errorf("reach the peer: %d bytes of private data, %w", len(p.PrivateData), err)
	}
	return &rdmaClient{e, binary.BigEndian.Uint64(p.PrivateData), binary.BigEndian.Uint32(p.PrivateData[8:])}, nil
}

// turns posts wrs, atOnce times before the first answer, and waits until n
// answers have come.
func (c *rdmaClient) turns(n, atOnce int, wrs []verbs.SendWR) (time.Duration, error) {
	c.left, c.more, c.next = n, n-atOnce, wrs
	begun := time.Now()
	for range atOnce {
		if err := errors.Join(c.qp.PostRecv(c.recv[:]), c.qp.PostSend(wrs)); err != nil {
			return 0, err
		}
	}
	<-c.done
	return time.Since(begun), c.err
}

func (c *rdmaClient) ping() (time.Duration, error) { return c.turns(pings, 1, c.send[:]) }

// stream writes in groups of eight with a message behind each, three groups
// before the first answer.
func (c *rdmaClient) stream() (time.Duration, error) {
	const group = 8
	wrs := make([]verbs.SendWR, group, group+1)
	for i := range wrs {
		wrs[i] = verbs.SendWR{Opcode: verbs.WRRDMAWrite, SGEs: []verbs.SGE{c.sge(4096, streamSize)}, RemoteAddr: c.remote + 4096, RKey: c.rkey}
	}
	return c.turns(streamMiB/group, 3, append(wrs, c.send[0]))
}

// servePeer is the other process: it serves one connection of each kind and ends
// with its standard input.
func servePeer() error {
	runtime.GOMAXPROCS(max(4, runtime.NumCPU()))
	ctx := context.Background()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	l, err := iwarp.New().Listen(ctx, verbs.Addr{Fabric: iwarp.Name, Host: "127.0.0.1", Port: "0"})
	if err != nil {
		return err
	}
	fmt.Println(tcp.Addr(), l.Addr())
	go func() {
		if c, err := tcp.Accept(); err == nil {
			_ = serveTCP(c) // ends with the connection
		}
	}()
	cm, err := l.GetRequest(ctx)
	if err != nil {
		return err
	}
	e, err := newEnd(cm)
	if err != nil {
		return err
	}
	e.more = math.MaxInt
	for range 4 {
		if err := e.qp.PostRecv(e.recv[:]); err != nil {
			return err
		}
	}
	where := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(nil, e.mr.Addr()), e.mr.RKey())
	if _, err := cm.Accept(ctx, verbs.ConnParam{PrivateData: where}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
